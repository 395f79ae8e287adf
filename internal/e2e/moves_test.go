package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/moves"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
)

// A nomad is a job on four ranks whose members can move.
type nomad struct {
	name, yaml string
	members    map[string]int // number of members of each component
	args       []string
	program    string // "": rlinf itself
}

// nomadOf returns a nomad that learns one of tasks.
func nomadOf(task, actors, envs, rollouts int, args ...string) *nomad {
	return &nomad{name: tasks[task].name, yaml: tasks[task].yaml,
		members: map[string]int{"actor": actors, "env": envs, "rollout": rollouts},
		args:    append(args, fmt.Sprint("env.train.max_steps_per_rollout_epoch=", tasks[task].steps))}
}

// nomads are nomads of all kinds of jobs.
func nomads() []*nomad {
	return []*nomad{
		nomadOf(0, 2, 2, 2, "++runner.weight_sync_interval=3"),
		nomadOf(1, 2, 2, 2, "++rollout.pipeline_stage_num=2"),
		nomadOf(2, 2, 3, 2, "++weight_syncer.type=patch"),
		nomadOf(3, 2, 2, 1),
		nomadOf(4, 2, 2, 2),
		nomadOf(5, 2, 2, 3),
		{name: "a critic and a reference", yaml: reasoning,
			members: map[string]int{"actor": 2, "rollout": 2, "reward": 1, "inference": 2, "critic": 2},
			args: []string{"reward.random_reward=true", "algorithm.kl_beta=0.1", "algorithm.adv_type=gae",
				"algorithm.loss_type=actor_critic"}},
		{name: "models in 2 × 2 parts", yaml: laidOut(reasoning), members: map[string]int{"actor": 8, "rollout": 4},
			args: answered(2, 2, 2, "reward.random_reward=true", "algorithm.kl_beta=0.1")},
	}
}

// A camp is a folder for the runs of a nomad.
type camp struct {
	*nomad
	dir string
}

func newCamp(t testing.TB, n *nomad) camp {
	t.Helper()
	c := camp{n, t.TempDir()}
	if strings.Contains(n.yaml, "data/train.jsonl") {
		local.ok(t, c.dir, 0, "data", "addition", "--out", "data", "--train", "60", "--test", "9")
	}
	writeFile(t, c.dir, "job.yaml", n.yaml)
	return c
}

// start starts or resumes the job in the folder of a run. The test may ask it to move.
func (c camp) start(t testing.TB, on *platform, run, place string, args ...string) *job {
	t.Helper()
	return c.startBelow(t, nil, on, run, place, args...)
}

// startBelow is start with a command in front of the command of the job.
func (c camp) startBelow(t testing.TB, above []string, on *platform, run, place string, args ...string) *job {
	t.Helper()
	return on.startBelow(t, above, on.program(t, cmp.Or(c.program, ".")), c.dir, 4, c.line(run, place, args...)...)
}

// line returns the command line of the job.
func (c camp) line(run, place string, args ...string) []string {
	return slices.Concat([]string{"-c", "job.yaml", "++cluster.component_placement=" + place,
		"++cluster.allow_idle_ranks=true", "++runner.save_interval=2", "++runner.val_check_interval=2",
		"++runner.logger.experiment_name=" + run}, c.args, args)
}

func (c camp) folder(run string) string { return filepath.Join(c.dir, "logs", run) }

// place returns a random placement of the members.
func (n *nomad) place(draw *rand.Rand) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(n.members)) {
		ranks := make([]int, n.members[name])
		for i := range ranks {
			ranks[i] = draw.IntN(4)
		}
		slices.Sort(ranks)
		parts = append(parts, fmt.Sprintf("%s: '%s'", name, spmd.PlacementOf(ranks)))
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// results returns the metrics of a run, and its last checkpoint.
func (c camp) results(t testing.TB, run string) (metrics, *checkpoint.Checkpoint) {
	t.Helper()
	last := test.Must(checkpoint.Load(filepath.Join(c.folder(run), "checkpoints", "latest")))(t)
	if files := last.Files(); len(files) < 3 { // config.yaml is one
		t.Fatalf("the last checkpoint has the files %q", files)
	}
	return readMetrics(t, c.folder(run)), last
}

// settle runs the job without moves, and returns a function that compares the results of another run with it.
func (c camp) settle(t testing.TB, place string, args ...string) (same func(t testing.TB, run string)) {
	t.Helper()
	if r := c.start(t, local, "settled", place, args...).result(); r.code != 0 {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	want, settled := c.results(t, "settled")
	return func(t testing.TB, run string) {
		t.Helper()
		m, last := c.results(t, run)
		m.same(t, want, "not the metrics of the job that stays")
		for _, d := range test.Must(checkpoint.Compare(settled, last))(t) {
			t.Errorf("not the checkpoint of the job that stays: %v", d)
		}
	}
}

// A walk has the results of the moves that a test requests.
type walk struct {
	made    atomic.Int64
	refused []string // the reasons of refusals
	ended   chan struct{}
}

// walk asks the job in a run's folder for one move after another, until the job ends or next returns "".
func (j *job) walk(run string, next func() string) *walk {
	w := &walk{ended: make(chan struct{})}
	go func() {
		defer close(w.ended)
		for _, err := os.Stat(filepath.Join(run, "ranks.jsonl")); err != nil; _, err = os.Stat(filepath.Join(run,
			"ranks.jsonl")) { // the job has not taken the folder yet
			if time.Sleep(time.Millisecond); j.over() {
				return
			}
		}
		for place := next(); place != ""; place = next() {
			id, err := moves.Ask(run, place)
			for ; err != nil; id, err = moves.Ask(run, place) { // the disk is full
				if time.Sleep(time.Millisecond); j.over() {
					return
				}
			}
			var a *moves.Answer
			for ; a == nil; a, _ = moves.Find(run, id) {
				if time.Sleep(time.Millisecond); j.over() {
					return
				}
			}
			switch {
			case a.Move != nil:
				w.made.Add(1)
			case !strings.HasPrefix(a.Refused, "the job ended before"): // the answer is from an earlier job
				w.refused = append(w.refused, a.Refused)
			}
		}
	}()
	j.t.Cleanup(func() {
		j.kill()
		<-w.ended
	})
	return w
}

// wander asks for moves to random placements. No placement is equal to the one before, which is last in the beginning.
func (c camp) wander(j *job, run, last string, draw *rand.Rand) *walk {
	return j.walk(c.folder(run), func() string {
		place := last
		for place == last {
			place = c.place(draw)
		}
		last = place
		return place
	})
}

// end waits for the end of a wandering job. The job must succeed, and make at least so many moves.
func (w *walk) end(t testing.TB, j *job, least int) {
	t.Helper()
	r := j.result()
	<-w.ended
	if r.code != 0 || int(w.made.Load()) < least || len(w.refused) > 0 {
		t.Errorf("exit code %d, %d moves, want at least %d, refused %q\n%s%s", r.code, w.made.Load(), least, w.refused,
			r.stdout, r.stderr)
	}
	t.Logf("%d moves", w.made.Load())
}

func draws(t testing.TB, seed int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(seed), uint64(len(t.Name()))))
}

// TestMovesEqual: a job that moves again and again has the metrics and the last checkpoint of a job that does not move.
func TestMovesEqual(t *testing.T) {
	t.Parallel()
	times := 1
	if full {
		times = 2
	}
	for i, n := range nomads() {
		for _, on := range platforms {
			sample := on == openmpi && i == 4 || on == mpich && i == 7 // see TestWandering of roles/session
			if !full && !sample {
				continue
			}
			t.Run(n.name+"/"+on.name, func(t *testing.T) {
				t.Parallel()
				on.program(t, ".") // or skip the test
				draw := draws(t, i)
				c, start := newCamp(t, n), n.place(draw)
				same := c.settle(t, start, steps(12))
				for seed := range times {
					run := fmt.Sprint("walk", seed)
					j := c.start(t, on, run, start, steps(12))
					c.wander(j, run, start, draw).end(t, j, 2)
					same(t, run)
					verified(t, ".", c.dir, c.folder(run))
				}
			})
		}
	}
}

// TestMovesOnHosts: members move between hosts that reach each other only by TCP.
func TestMovesOnHosts(t *testing.T) {
	t.Parallel()
	for i, n := range nomads() {
		for _, p := range platforms[1:] {
			if !full && (p != openmpi || i != 0) {
				continue
			}
			t.Run(n.name+"/"+p.name, func(t *testing.T) {
				t.Parallel()
				on, draw := p.onHosts(t, 2, 1), draws(t, i)
				c, start := newCamp(t, n), n.place(draw)
				same := c.settle(t, start, steps(12))
				j := c.start(t, on, "walk", start, steps(12))
				c.wander(j, "walk", start, draw).end(t, j, 2)
				same(t, "walk")
			})
		}
	}
}

// TestMovesKilled: a job, or one of its ranks, is killed by SIGKILL while its members move again and again. After a
// resume it begins in its first placement, moves again, and ends like an undisturbed job.
func TestMovesKilled(t *testing.T) {
	t.Parallel()
	kills := 2
	if full {
		kills = 20
	}
	for p, on := range platforms {
		if on == mpich && !full {
			continue
		}
		t.Run(on.name, func(t *testing.T) {
			t.Parallel()
			on.program(t, ".") // or skip the test
			for kill := range kills {
				n := nomads()[(p+2*kill)%7]
				draw := draws(t, kill)
				c, start := newCamp(t, n), n.place(draw)
				j := c.start(t, on, "run", start, steps(1_000_000))
				w := c.wander(j, "run", start, draw)
				poll(t, j, func() bool { return int(w.made.Load()) > kill%3 })
				whom := j.killAt(time.Duration(draw.IntN(150))*time.Millisecond, draw.IntN(5))
				<-w.ended
				done := len(readMetrics(t, c.folder("run")))
				t.Logf("%s: killed %s after %d moves and %d steps", n.name, whom, w.made.Load(), done)
				j = c.start(t, on, "run", start, steps(done+4), "--resume", "auto")
				c.wander(j, "run", start, draw).end(t, j, 0)
				c.settle(t, start, steps(done+4))(t, "run")
				c.checkRecord(t, "run")
			}
		})
	}
}

// checkRecord checks the record of moves of a run: each begins where the last one ended, and the moves that the killed
// job had lost are gone.
func (c camp) checkRecord(t testing.TB, run string) {
	t.Helper()
	all, damaged, err := moves.Read(c.folder(run))
	for i := range all {
		if i > 0 && all[i].Step <= all[i-1].Step {
			t.Errorf("a move after step %d follows one after step %d", all[i].Step, all[i-1].Step)
		}
	}
	if damaged > 0 || err != nil {
		t.Errorf("%d moves, %d damaged lines, %v", len(all), damaged, err)
	}
}

// TestMovesStopped: a job that is asked to stop while its members move saves a checkpoint, and says so by its exit
// code. After a resume it ends like an undisturbed job.
func TestMovesStopped(t *testing.T) {
	t.Parallel()
	for i, c := range []struct {
		on     *platform
		signal syscall.Signal
		code   int
		status string
	}{
		{local, syscall.SIGUSR1, 75, "checkpointed"},
		{local, syscall.SIGTERM, 143, "interrupted"},
		{openmpi, syscall.SIGUSR1, 75, "checkpointed"},
		{mpich, syscall.SIGUSR1, 75, "checkpointed"},
	} {
		if c.on == mpich && !full { // the test stops the ranks of Open MPI
			continue
		}
		t.Run(c.on.name+"/"+c.signal.String(), func(t *testing.T) {
			t.Parallel()
			c.on.program(t, ".") // or skip the test
			for instant := range repeats() {
				draw := draws(t, instant)
				n := nomads()[(i+instant)%6]
				at, start := newCamp(t, n), n.place(draw)
				j := at.start(t, c.on, "run", start, steps(1_000_000))
				w := at.wander(j, "run", start, draw)
				poll(t, j, func() bool { return int(w.made.Load()) > 1+instant%3 })
				time.Sleep(time.Duration(draw.IntN(100)) * time.Millisecond)
				j.signal(c.signal)
				r := j.result()
				<-w.ended
				done := len(readMetrics(t, at.folder("run")))
				_, err := os.Stat(filepath.Join(at.folder("run"), "checkpoints", fmt.Sprint("global_step_", done)))
				if s := string(readStatus(t, at.folder("run"))); !c.on.stopped(r.code, c.code) || s != c.status ||
					err != nil || len(w.refused) > 0 {
					t.Fatalf("%s: exit code %d, want %d, STATUS %s, want %s, %d moves, refused %q, %v\n%s%s", n.name,
						r.code, c.code, s, c.status, w.made.Load(), w.refused, err, r.stdout, r.stderr)
				}
				j = at.start(t, c.on, "run", start, steps(done+4), "--resume", "auto")
				at.wander(j, "run", start, draw).end(t, j, 0)
				at.settle(t, start, steps(done+4))(t, "run")
			}
		})
	}
}

// TestOwnProgramMoves: a user's program, whose workers have state, has the same metrics with and without moves.
func TestOwnProgramMoves(t *testing.T) {
	t.Parallel()
	program, dir := local.program(t, "./examples/own_runner"), t.TempDir()
	text := test.Must(os.ReadFile(filepath.Join(root, "examples/own_runner/cartpole.yaml")))(t)
	writeFile(t, dir, "job.yaml", string(text))
	start := func(run string) *job {
		return local.startProgram(t, program, dir, 0, "-c", "job.yaml", "-np", "4", "runner.max_steps=400",
			"runner.val_check_interval=200", "++cluster.allow_idle_ranks=true", "runner.logger.log_path=logs",
			"runner.logger.experiment_name="+run)
	}
	if r := start("settled").result(); r.code != 0 {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	moving := start("moving")
	folder := filepath.Join(dir, "logs/moving")
	places := []string{"{actor: 2-3, env: 0-1, rollout: 1-2, monitor: 2-3}", "{actor: 0-1, env: 2-3, rollout: 2-3, " +
		"monitor: 1-2}"}
	n := 0
	moving.walk(folder, func() string {
		n++
		return places[n%2]
	}).end(t, moving, 2)
	readMetrics(t, folder).same(t, readMetrics(t, filepath.Join(dir, "logs/settled")))
}
