package e2e

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
)

// A course is a run that is stopped in some way, and then resumed. It saves every second step. Its rollouts use weights
// that are up to three iterations old, so a checkpoint must have those weights, too.
type course struct {
	t    testing.TB
	dir  string
	task int
}

func newCourse(t testing.TB, task int) course { return course{t, t.TempDir(), task} }

// start starts or resumes the job in a placement.
func (c course) start(on *platform, np int, cluster string, args ...string) *job {
	c.t.Helper()
	config := writeFile(c.t, c.dir, fmt.Sprintf("ranks-%d.yaml", np), cluster+tasks[c.task].yaml)
	return on.start(c.t, c.dir, np,
		append([]string{"-c", config, "runner.save_interval=2", "runner.val_check_interval=2",
			"runner.weight_sync_interval=3",
			fmt.Sprint("env.train.max_steps_per_rollout_epoch=", tasks[c.task].steps),
			"runner.logger.experiment_name=run"}, args...)...)
}

// ok starts or resumes the job, waits for the end, and expects success.
func (c course) ok(on *platform, np int, cluster string, args ...string) result {
	c.t.Helper()
	r := c.start(on, np, cluster, args...).result()
	if r.code != 0 {
		c.t.Fatalf("%s, %d ranks, %q: exit code %d\n%s%s", on.name, np, args, r.code, r.stdout, r.stderr)
	}
	return r
}

func (c course) folder() string { return filepath.Join(c.dir, "logs", "run") }

func (c course) metrics() metrics { return readMetrics(c.t, c.folder()) }

func (c course) status() string {
	text, err := os.ReadFile(filepath.Join(c.folder(), "STATUS"))
	if err != nil {
		c.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// steps is the argument that ends a job.
func steps(n int) string { return fmt.Sprint("runner.max_steps=", n) }

// undisturbed returns the metrics of a task that runs without a stop, with so many actors.
func undisturbed(t testing.TB, task, actors, n int) metrics {
	t.Helper()
	c := newCourse(t, task)
	np, cluster := placements[0].place(actors)
	c.ok(local, np, cluster, steps(n))
	m := c.metrics()
	m.checkWhole(t, n)
	return m
}

// TestKilled: a run, or one of its ranks, is killed by SIGKILL at any instant. After a resume the run ends with the
// metrics of an undisturbed run.
func TestKilled(t *testing.T) {
	t.Parallel()
	const n = 30
	kills := 2
	on := []*platform{local, openmpi}
	if full {
		kills, on = 20, platforms
	}
	for _, on := range on {
		t.Run(on.name, func(t *testing.T) {
			t.Parallel()
			on.program(t, ".") // or skip the test
			draw := rand.New(rand.NewPCG(5, uint64(len(on.name))))
			// Most instants then fall into steps, and not into the start of the job.
			const slow = "env.train.step_delay=1ms"
			wall := make([]time.Duration, len(tasks)) // of a whole run of each task
			want := make([]metrics, len(tasks))
			for kill := range kills {
				task, place := kill%len(tasks), placements[(3+5*kill)%len(placements)]
				np, cluster := place.place(2)
				c := newCourse(t, task)
				if wall[task] == 0 {
					want[task] = undisturbed(t, task, 2, n)
					start := time.Now()
					newCourse(t, task).ok(on, np, cluster, steps(n), slow)
					wall[task] = time.Since(start)
				}
				args := []string{steps(n), slow}
				for range 1 + kill%2 { // the second time after a resume
					at := time.Duration(draw.Float64() * float64(wall[task]))
					j := c.start(on, np, cluster, args...)
					whom := j.killAt(at, draw.IntN(2*np))
					got := c.metrics()
					t.Logf("%s, %s: killed %s after %v, in step %d", tasks[task].name, place.name, whom,
						at.Round(time.Millisecond), len(got)+1)
					got.same(t, want[task][:min(n, len(got))], "before it was killed it was not the undisturbed run")
					args = []string{steps(n), slow, "--resume", "auto"}
				}
				c.ok(on, np, cluster, args...)
				c.metrics().same(t, want[task], "afterwards, not the metrics of the undisturbed run")
				test.Equal(t, c.status(), "done", "STATUS")
				verified(t, ".", c.dir, c.folder())
			}
		})
	}
}

// killRank kills a rank by SIGKILL. It returns false if there is no such process.
func (j *job) killRank(rank int) bool {
	for _, p := range j.processes() {
		if p.rank == rank {
			return syscall.Kill(p.pid, syscall.SIGKILL) == nil
		}
	}
	return false
}

// TestKilledWhileSaving kills a run each time that it writes a checkpoint, and resumes it.
func TestKilledWhileSaving(t *testing.T) {
	t.Parallel()
	const task, n = 2, 16
	want := undisturbed(t, task, 2, n)
	np, cluster := placements[3].place(2)
	c := newCourse(t, task)
	args := []string{steps(n)}
	halves := 0
	for range 5 {
		j := c.start(local, np, cluster, args...)
		for start := time.Now(); !j.over() && len(c.halves()) == 0 && time.Since(start) < hung; {
			time.Sleep(50 * time.Microsecond)
		}
		j.kill()
		j.wait()
		halves += len(c.halves())
		args = []string{steps(n), "--resume", "auto"}
		if diff := c.metrics().diff(want[:min(n, len(c.metrics()))]); diff != "" {
			t.Fatalf("before it was killed it was not the undisturbed run:\n%s", diff)
		}
	}
	t.Logf("%d of 5 kills left half a checkpoint", halves)
	c.ok(local, np, cluster, args...)
	c.metrics().same(t, want, "not the metrics of the undisturbed run")
	if left := c.halves(); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// halves are the checkpoints that are being written, or were never completed.
func (c course) halves() []string {
	found, err := filepath.Glob(filepath.Join(c.folder(), "checkpoints", ".writing-global_step_*"))
	if err != nil {
		c.t.Fatal(err)
	}
	return found
}

// TestResumeOnOtherRanks: a resumed run has the same metrics on another number of ranks, with as many actors, or
// without MPI.
func TestResumeOnOtherRanks(t *testing.T) {
	t.Parallel()
	for i, on := range platforms {
		t.Run(on.name, func(t *testing.T) {
			t.Parallel()
			on.program(t, ".") // or skip the test
			for task := range tasks {
				if !full && task%3 != 2-i {
					continue
				}
				c := newCourse(t, task)
				c.ok(on, 8, components("actor: 0-1")+"    env: 2-5\n    rollout: 6-7\n", steps(4))
				c.ok(local, 4, components("actor: 2-3")+"    env: 0-1\n    rollout: 2-3\n", steps(8), "--resume",
					"auto", "rollout.pipeline_stage_num=2")
				c.ok(on, 6, components("actor: '0:0-1'")+"    env: 2-4\n    rollout: '1,5'\n", steps(12),
					"runner.resume_dir=auto")
				if diff := c.metrics().diff(undisturbed(t, task, 2, 12)); diff != "" {
					t.Errorf("%s: not the metrics of the undisturbed run:\n%s", tasks[task].name, diff)
				}
			}
		})
	}
}

// TestResumeOfReplay: SAC on two actors stops while its replay buffer fills, or after the buffer was full. After a
// resume it has the same metrics, and the same bits in every file of its checkpoint: parameters, critics, optimisers,
// statistics, experience and environments. The same holds for CrossQ and DAgger.
func TestResumeOfReplay(t *testing.T) {
	t.Parallel()
	const n = 8
	task := slices.IndexFunc(tasks, func(t task) bool { return strings.HasSuffix(t.name, "SAC") })
	np, cluster := placements[3].place(2)
	for name, args := range map[string][]string{
		"filling":    {"algorithm.replay_buffer.sample_window_size=20"},
		"come round": {"algorithm.replay_buffer.sample_window_size=3"},
		"CrossQ": {"algorithm.adv_type=embodied_crossq", "algorithm.loss_type=embodied_crossq",
			"actor.model.q_head_type=crossq"},
		"DAgger": dagger,
	} {
		t.Run(name, func(t *testing.T) {
			whole, c := newCourse(t, task), newCourse(t, task)
			whole.ok(local, np, cluster, append(args, steps(n))...)
			c.ok(local, np, cluster, append(args, steps(4))...)
			c.ok(local, np, cluster, append(args, steps(n), "--resume", "auto")...)
			c.metrics().same(t, whole.metrics(), "not the metrics of the undisturbed run")
			last := filepath.Join("checkpoints", fmt.Sprint("global_step_", n))
			files, err := filepath.Glob(filepath.Join(whole.folder(), last, "*.safetensors"))
			if err != nil || len(files) < 4 { // model, trainer, rollout, env
				t.Fatalf("files of the last checkpoint: %v, %v", files, err)
			}
			for _, file := range files {
				want := readFile(t, file)
				got, err := os.ReadFile(filepath.Join(c.folder(), last, filepath.Base(file)))
				if err != nil || string(got) != want {
					t.Errorf("%s: %d bytes, not the %d of the undisturbed run: %v", filepath.Base(file), len(got),
						len(want), err)
				}
			}
		})
	}
}

// TestResumeWithOtherActors: with more or fewer actors a run resumes from the same weights and the same states of
// environments.
func TestResumeWithOtherActors(t *testing.T) {
	t.Parallel()
	for task := range tasks {
		t.Run(tasks[task].name, func(t *testing.T) {
			t.Parallel()
			const saved = 4
			want := undisturbed(t, task, 2, saved+2).only("env/")[:saved+1]
			for _, actors := range []int{1, 3} {
				c := newCourse(t, task)
				np, cluster := placements[2].place(2)
				c.ok(local, np, cluster, steps(saved))
				np, cluster = placements[3].place(actors)
				c.ok(local, np, cluster, steps(saved+2), "--resume",
					filepath.Join("logs", "run", "checkpoints", fmt.Sprint("global_step_", saved)))
				m := c.metrics()
				m.checkWhole(t, saved+2)
				if diff := m.only("env/")[:saved+1].diff(want); diff != "" {
					t.Errorf("from 2 to %d actors, not the same rollout after step %d:\n%s", actors, saved, diff)
				}
			}
		})
	}
}

// TestStopped: a run that is asked to stop, by a signal or by its time limit, says so by its exit code and STATUS.
// After a resume it ends like an undisturbed run.
func TestStopped(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		on     *platform
		signal syscall.Signal // 0: the time limit runner.max_time
		code   int
		status string
	}{
		{local, syscall.SIGUSR1, 75, "checkpointed"},
		{local, syscall.SIGINT, 130, "interrupted"},
		{local, syscall.SIGTERM, 143, "interrupted"},
		{local, 0, 75, "checkpointed"},
		{openmpi, syscall.SIGUSR1, 75, "checkpointed"},
		{openmpi, 0, 75, "checkpointed"},
		{mpich, syscall.SIGUSR1, 75, "checkpointed"},
		{mpich, 0, 75, "checkpointed"},
	} {
		name := "max_time"
		if c.signal != 0 {
			name = c.signal.String()
		}
		t.Run(c.on.name+"/"+name, func(t *testing.T) {
			t.Parallel()
			c.on.program(t, ".") // or skip the test
			run := newCourse(t, i%len(tasks))
			np, cluster := placements[3].place(2)
			const slow = "env.train.step_delay=2ms" // limits the number of steps on any machine
			args := []string{slow, steps(1_000_000)}
			if c.signal == 0 {
				args = append(args, "runner.max_time=1s")
			}
			j := run.start(c.on, np, cluster, args...)
			if c.signal != 0 {
				poll(t, j, func() bool { return len(run.metrics()) > 1 })
				j.signal(c.signal)
			}
			if code := j.wait(); code != c.code && (c.signal == 0 || !c.on.stopped(code, c.code)) {
				t.Fatalf("exit code %d, want %d\n%s%s", code, c.code, &j.stdout, &j.stderr)
			}
			answer := `(?m)^(finishing step \d+, then saving a checkpoint|stopping before the first step)$`
			if c.signal == syscall.SIGINT || c.signal == syscall.SIGTERM {
				answer = `(?m)^finishing step \d+, then saving a checkpoint; again to stop now$`
			}
			if n := len(regexp.MustCompile(answer).FindAllString(j.stdout.String(), -1)); n != 1 {
				t.Errorf("%d answers, expected 1: %s\n%s", n, answer, &j.stdout)
			}
			if s := run.status(); s != c.status {
				t.Errorf("STATUS is %s, want %s", s, c.status)
			}
			done := len(run.metrics())
			if _, err := os.Stat(filepath.Join(run.folder(), "checkpoints", fmt.Sprint("global_step_", done))); err !=
				nil {
				t.Fatalf("stopped after step %d: %v", done, err)
			}
			run.ok(c.on, np, cluster, slow, steps(done+4), "--resume", "auto")
			if diff := run.metrics().diff(undisturbed(t, run.task, 2, done+4)); diff != "" {
				t.Errorf("stopped after step %d, then not the metrics of the undisturbed run:\n%s", done, diff)
			}
		})
	}
}

// TestResumeOfDoneRun: a run that is done does nothing after a resume.
func TestResumeOfDoneRun(t *testing.T) {
	t.Parallel()
	c := newCourse(t, 0)
	np, cluster := placements[1].place(2)
	c.ok(local, np, cluster, steps(4))
	want := c.metrics()
	c.ok(local, np, cluster, steps(4), "--resume", "auto")
	c.metrics().same(t, want)
}

// TestDamagedCheckpoint: damaged checkpoints are named, and the newest complete checkpoint is used.
func TestDamagedCheckpoint(t *testing.T) {
	t.Parallel()
	const task = 2
	want := undisturbed(t, task, 2, 8)
	for _, damage := range []struct {
		name, file string // the file that the message names
		do         func(file string) error
	}{
		{"cut", "model.safetensors", func(f string) error { return os.Truncate(f, 1000) }},
		{"a byte changed", "trainer.safetensors", func(f string) error {
			text, err := os.ReadFile(f)
			if err != nil {
				return err
			}
			text[len(text)/2] ^= 1
			return os.WriteFile(f, text, 0o666)
		}},
		{"a file gone", "env.safetensors", os.Remove},
		{"no manifest", "manifest.json", os.Remove},
	} {
		t.Run(damage.name, func(t *testing.T) {
			t.Parallel()
			c := newCourse(t, task)
			np, cluster := placements[1].place(2)
			c.ok(local, np, cluster, steps(6))
			test.OK(t, damage.do(filepath.Join(c.folder(), "checkpoints", "global_step_6", damage.file)))
			r := c.ok(local, np, cluster, steps(8), "--resume", "auto")
			named := func(line string) bool {
				return strings.HasPrefix(line, "warning: not used: ") && strings.Contains(line, "global_step_6") &&
					strings.Contains(line, damage.file)
			}
			if !slices.ContainsFunc(strings.Split(r.stderr, "\n"), named) {
				t.Errorf("no line says that %s of global_step_6 is damaged:\n%s", damage.file, r.stderr)
			}
			if !strings.Contains(r.stdout, "global_step_4") {
				t.Errorf("not said that it goes on from global_step_4:\n%s", r.stdout)
			}
			c.metrics().same(t, want, "not the metrics of the undisturbed run")
		})
	}
}

// TestResumeRefused: a run does not resume with another configuration or another model. It says what differs, and
// changes no file.
func TestResumeRefused(t *testing.T) {
	t.Parallel()
	c := newCourse(t, 0)
	np, cluster := placements[1].place(2)
	c.ok(local, np, cluster, steps(2))
	before := snapshot(t, c.folder())
	checkpoint := filepath.Join("logs", "run", "checkpoints", "global_step_2")
	for _, on := range platforms {
		t.Run(on.name, func(t *testing.T) {
			on.program(t, ".") // or skip the test
			for _, changed := range []struct {
				args []string
				says []string
			}{
				{[]string{"actor.model.hidden_sizes=[64,32]"}, []string{"actor.model.hidden_sizes.1: 64 then, 32 now"}},
				{[]string{"algorithm.gamma=0.9", "actor.optim.lr=0.1"},
					[]string{"algorithm.gamma: 0.99 then, 0.9 now", "actor.optim.lr: 0.003 then, 0.1 now"}},
				{[]string{"env.train.env_type=Acrobot-v1"},
					[]string{"env.train.env_type: \"CartPole-v1\" then, \"Acrobot-v1\" now"}},
			} {
				for _, from := range []string{"auto", checkpoint} {
					r := c.start(on, np, cluster, append(changed.args, steps(4), "--resume", from)...).result()
					if r.code != 2 {
						t.Errorf("%q, resume %s: exit code %d, want 2\n%s%s", changed.args, from, r.code, r.stdout,
							r.stderr)
					}
					for _, text := range changed.says {
						if strings.Count(r.stderr, text) != 1 {
							t.Errorf("%q, resume %s: want %q, once:\n%s", changed.args, from, text, r.stderr)
						}
					}
				}
				if !full && on != local {
					break
				}
			}
			after := snapshot(t, c.folder())
			for path := range after {
				if before[path] != after[path] {
					t.Errorf("%s has changed", path)
				}
			}
			for path := range before {
				if _, ok := after[path]; !ok {
					t.Errorf("%s is gone", path)
				}
			}
		})
	}
}
