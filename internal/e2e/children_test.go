package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"image"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/internal/video/videotest"
)

// served is the configuration of children that play CartPole, by rlinf bridge serve.
const served = `
cluster: {component_placement: {"actor,env,rollout": 0}}
runner: {max_steps: 1}
env: {train: {env_type: CartPole-v1, total_num_envs: 1, max_steps_per_rollout_epoch: 32}}
actor: {micro_batch_size: 32, global_batch_size: 32, optim: {lr: 1.0e-3}}
`

// killed is a job on two ranks with environments, each of which four children share.
const killed = `
cluster: {component_placement: {actor: 0, env: 0-1, rollout: 0}}
runner: {max_steps: %d, val_check_interval: -1, save_interval: -1, logger: {experiment_name: run}}
env:
  train:
    env_type: external
    total_num_envs: 32
    max_steps_per_rollout_epoch: 32
    external: {command: "%s bridge serve -c served.yaml", n: 4, max_restarts: 1000}
algorithm: {gamma: 0.99, gae_lambda: 0.95, update_epoch: 8, normalize_advantages: minibatch}
actor: {micro_batch_size: 128, global_batch_size: 128, optim: {lr: 1.0e-3, weight_decay: 0}}
`

// TestChildrenKilled: training reaches its score although a child is killed from time to time. After each replacement
// the processes have as many children, descriptors and shared segments as in the beginning, whether both ranks are in
// one process or not.
func TestChildrenKilled(t *testing.T) {
	t.Parallel()
	kills, pause, score := 6, time.Duration(0), 60.0
	if full {
		kills, pause, score = 20, 2*time.Second, 450
	}
	for _, p := range platforms {
		t.Run(p.name, func(t *testing.T) {
			np, processes := 2, 2
			if p == local {
				np, processes = 0, 1
			}
			dir := t.TempDir()
			writeFile(t, dir, "served.yaml", served)
			writeFile(t, dir, "job.yaml", fmt.Sprintf(killed, 100000, local.program(t, ".")))
			j := p.start(t, dir, np, "-c", "job.yaml")
			run := filepath.Join(dir, "logs", "run")
			// By then all children have started, and MPI has connected to all peers.
			poll(t, j, func() bool { return len(readMetrics(t, run)) >= 10 })
			first := holds(j.children())
			now := first
			defer func() {
				t.Logf("[children descriptors mappings] of each process at first %v, at last %v", first, now)
			}()
			test.Equal(t, len(first), processes, "processes have children")
			for i := range kills {
				children := j.children()
				victim := children[i%len(children)]
				syscall.Kill(victim, syscall.SIGKILL)
				time.Sleep(pause)
				poll(t, j, func() bool {
					children := j.children()
					now = holds(children)
					return !slices.Contains(children, victim) && maps.EqualFunc(first, now, held.near)
				})
			}
			poll(t, j, func() bool {
				r := readMetrics(t, run).values(t, "env/return")
				return r[len(r)-1] >= score
			})
			j.signal(syscall.SIGUSR1)
			r := j.result()
			restarts := restartsOf(run)
			if !p.stopped(r.code, 75) || restarts != kills {
				t.Fatalf("exit code %d, %d kills, %d replaced\n%s%s", r.code, kills, restarts, r.stdout, r.stderr)
			}
			lost := lostEpisodes(t, run)
			// A replacement that is killed before its first episode loses no further episodes.
			if lost < 4 || lost > 4*float64(kills) {
				t.Errorf("%v episodes were lost in %d restarts of children with 4 environments each", lost, kills)
			}
		})
	}
}

// restartsOf returns the number of replaced simulators, from the logs of all ranks: the terminal shows only one of
// several equal messages.
func restartsOf(run string) (restarts int) {
	logs, _ := filepath.Glob(filepath.Join(run, "logs", "rank-*.log"))
	for _, file := range logs {
		text, _ := os.ReadFile(file)
		restarts += bytes.Count(text, []byte("another simulator takes over"))
	}
	return restarts
}

func lostEpisodes(t *testing.T, run string) (lost float64) {
	for _, n := range readMetrics(t, run).values(t, "env/num_lost") {
		if n == 0 {
			t.Error("env/num_lost is 0, and there")
		}
		lost += n
	}
	return lost
}

// TestStoppedWhileWaiting: a job that waits for simulators to start or to answer stops on request or at its time limit,
// with a checkpoint if it has begun. After a second request it stops at once. A mistake in the configuration that is
// found after the time limit gives exit code 2, and not 75, so that a scheduler does not requeue the job.
func TestStoppedWhileWaiting(t *testing.T) {
	t.Parallel()
	program := local.program(t, ".")
	for _, c := range stopsWhileWaiting() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeFile(t, dir, "served.yaml", served)
			writeFile(t, dir, "job.yaml", fmt.Sprintf(killed, 10000, program))
			args := append([]string{"-c", "job.yaml", "env.train.external.start_timeout=10m",
				"env.train.external.step_timeout=10m"}, c.more...)
			j := local.start(t, dir, 0, args...)
			run := filepath.Join(dir, "logs", "run")
			if c.name == "one comes" {
				child := exec.Command(program, "bridge", "serve", "-c", "served.yaml")
				child.Dir, child.Env = dir, append(os.Environ(), "RLB_ADDR=unix:s")
				test.OK(t, child.Start())
				defer child.Wait()
			}
			poll(t, j, func() bool { return c.waits(dir, j) })
			if strings.HasPrefix(c.name, "no answer") {
				syscall.Kill(j.children()[0], syscall.SIGSTOP)
			}
			start := time.Now()
			for _, s := range c.signals {
				j.signal(s)
				time.Sleep(100 * time.Millisecond)
			}
			r := j.result()
			// On a busy machine the time limit can end the wait for the simulator, before the mistake is found.
			for try := 0; try < 20 && c.code == 2 && strings.Contains(r.stderr, "not ready to play"); try++ {
				r = local.run(t, dir, 0, args...)
			}
			if took := time.Since(start); r.code != c.code || !strings.Contains(r.stderr, c.says) ||
				took > 2*time.Minute {
				t.Fatalf("exit code %d after %v, want %d and %q\n%s%s", r.code, took, c.code, c.says, r.stdout,
					r.stderr)
			}
			if c.status == "" {
				return
			}
			_, err := checkpoint.Load(filepath.Join(run, "checkpoints", "latest"))
			if s := readStatus(t, run); s != c.status || (err == nil) != (len(c.signals) < 2) {
				t.Errorf("STATUS %v, want %v; latest checkpoint: %v", s, c.status, err)
			}
		})
	}
}

// A stopWhileWaiting is a job that gets signals while it waits for simulators.
type stopWhileWaiting struct {
	name    string
	more    []string
	signals []syscall.Signal
	code    int
	says    string
	status  runfolder.Status // "": the run has not begun
}

func stopsWhileWaiting() []stopWhileWaiting {
	return []stopWhileWaiting{
		{"nobody comes", []string{"env.train.external.command=[]", "env.train.external.listen=unix:s"},
			[]syscall.Signal{syscall.SIGTERM}, 143,
			"before the program was asked to stop", ""},
		{"nobody comes, requeue", []string{"env.train.external.command=[]", "env.train.external.listen=unix:s"},
			[]syscall.Signal{syscall.SIGUSR1}, 75,
			"before the program was asked to stop", ""},
		{"one comes and says nothing", []string{`env.train.external.command=[sh, -c, "> s; exec sleep 1000"]`},
			[]syscall.Signal{syscall.SIGUSR1}, 75,
			"not ready to play before the program was asked to stop", ""},
		{"one comes", []string{"env.train.external.command=[]", "env.train.external.listen=unix:s"},
			[]syscall.Signal{syscall.SIGTERM}, 143,
			"before the program was asked to stop", runfolder.Interrupted},
		{"no answer", nil, []syscall.Signal{syscall.SIGINT}, 130,
			"no other simulator takes over, because the program was asked to stop", runfolder.Interrupted},
		{"nobody comes, max_time", []string{"env.train.external.command=[]", "env.train.external.listen=unix:s",
			"runner.max_time=3s"}, nil, 75,
			"before the program was asked to stop", ""},
		{"a mistake found late, max_time", []string{"actor.model.obs_dim=5", "runner.max_time=1ms"}, nil, 2,
			"a value that fits: 5", ""},
		{"no answer, max_time", []string{"runner.max_time=30s", "env.train.external.step_timeout=35s"}, nil, 75,
			"no other simulator takes over, because the program was asked to stop", runfolder.Checkpointed},
		{"no answer, twice", nil, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM}, 143,
			"second signal: stopping at once", runfolder.Interrupted},
	}
}

// waits reports whether the job in dir waits for simulators to start, or plays.
func (c stopWhileWaiting) waits(dir string, j *job) bool {
	run := filepath.Join(dir, "logs", "run")
	if c.status == "" {
		_, err := os.Stat(filepath.Join(dir, "s"))
		return err == nil || c.signals == nil
	}
	if c.name == "one comes" {
		_, err := os.Stat(run)
		return err == nil
	}
	text, _ := os.ReadFile(filepath.Join(run, "metrics.jsonl"))
	return len(j.children()) == 8 && bytes.Count(text, []byte("\n")) > 0
}

// A held counts the children of a process, and its own descriptors and mappings of shared memory.
type held [3]int

// near reports whether a process holds as much as before. The first warning opens the log, so one more descriptor is
// allowed.
func (h held) near(now held) bool {
	return now[0] == h[0] && now[1] >= h[1] && now[1] <= h[1]+1 && now[2] == h[2]
}

// children returns the processes of the job that play environments, in the order of their numbers.
func (j *job) children() (pids []int) {
	for _, p := range j.processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.pid))
		if bytes.Contains(line, []byte("bridge\x00serve")) {
			pids = append(pids, p.pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// parentOf returns the parent of a process.
func parentOf(pid int) (parent int) {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	var state string
	fmt.Sscan(string(stat[bytes.LastIndexByte(stat, ')')+1:]), &state, &parent)
	return parent
}

// holds counts what the parents of these children hold. The parents are the supervisors of ranks.
func holds(children []int) map[int]held {
	all := map[int]held{}
	for _, c := range children {
		parent := parentOf(parentOf(c))
		h, known := all[parent]
		if !known {
			proc := fmt.Sprintf("/proc/%d/", parent)
			descriptors, _ := os.ReadDir(proc + "fd")
			maps, _ := os.ReadFile(proc + "maps")
			h = held{0, len(descriptors), bytes.Count(maps, []byte("/memfd:")) + bytes.Count(maps, []byte("/dev/shm/"))}
		}
		h[0]++
		all[parent] = h
	}
	return all
}

// TestChildrenGivenUp: a job whose children fail too often stops with a checkpoint, and says why the children failed.
// The job can be resumed.
func TestChildrenGivenUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := local.program(t, ".")
	writeFile(t, dir, "served.yaml", served)
	// Once this file exists, a child exits before the handshake.
	script := writeFile(t, dir, "child", "#!/bin/sh\n[ -e broken ] && { echo no licence; exit 3; }\nexec "+program+
		" bridge serve -c served.yaml\n")
	test.OK(t, os.Chmod(script, 0o777))
	writeFile(t, dir, "job.yaml", strings.ReplaceAll(fmt.Sprintf(killed, 10000, program),
		program+" bridge serve -c served.yaml", script))
	j := local.start(t, dir, 0, "-c", "job.yaml", "env.train.external.max_restarts=1")
	run := filepath.Join(dir, "logs", "run")
	poll(t, j, func() bool {
		text, _ := os.ReadFile(filepath.Join(run, "metrics.jsonl"))
		return len(j.children()) == 8 && bytes.Count(text, []byte("\n")) > 0
	})
	writeFile(t, dir, "broken", "")
	syscall.Kill(j.children()[0], syscall.SIGKILL)
	r := j.result()
	says := "it exited before the handshake: does it speak RLB1? (exit status 3); its last output:\n    no " +
		"licence\nthat was 2 times in a row"
	if r.code != 1 || !strings.Contains(r.stderr, says) || readStatus(t, run) != runfolder.Failed {
		t.Fatalf("exit code %d, STATUS %v, want %q\n%s%s", r.code, readStatus(t, run), says, r.stdout, r.stderr)
	}
	last, err := checkpoint.Load(filepath.Join(run, "checkpoints", "latest"))
	if err != nil || last.Step < 1 {
		t.Fatalf("latest checkpoint: %+v, %v\n%s%s", last, err, r.stdout, r.stderr)
	}
	test.OK(t, os.Remove(filepath.Join(dir, "broken")))
	// another value of max_restarts is allowed
	local.ok(t, dir, 0, "-c", "job.yaml", "--resume", "auto", fmt.Sprintf("runner.max_steps=%d", last.Step+2))
	if m := readMetrics(t, run); len(m) != int(last.Step)+2 {
		t.Errorf("%d iterations in all, want %d", len(m), last.Step+2)
	}
}

// family is a simulator with processes of its own: children, some of which called setsid, and some of which were forked
// twice.
const family = `#!/bin/sh
for how in "" setsid; do
	$how sleep 1000 3>&- 4>&- 5>&- >/dev/null 2>&1 &
	($how sleep 1000 3>&- 4>&- 5>&- >/dev/null 2>&1 &)
done
exec %s bridge serve -c served.yaml
`

// TestFamiliesEnd: all processes that simulators have started end with the job, however the job ends.
func TestFamiliesEnd(t *testing.T) {
	t.Parallel()
	endings := []struct {
		name string
		args []string
		do   func(*testing.T, *job, string) // nil: the job ends by itself
		on   []*platform                    // nil: on all platforms
		main string                         // the program, "": rlinf
	}{
		{"done", []string{"runner.max_steps=2"}, nil, nil, ""},
		{"failure", []string{"actor.optim.lr=1e30"}, nil, nil, ""},
		{"76", []string{"comm.stall_timeout=2s"}, rank(1, syscall.SIGSTOP), []*platform{openmpi, mpich}, ""},
		{"kill -9", nil, rank(1, syscall.SIGKILL), []*platform{openmpi, mpich}, ""},
		{"kill -9, launcher", nil, signals(syscall.SIGKILL), nil, ""},
		{"TERM", nil, signals(syscall.SIGTERM), nil, ""},
		{"INT", nil, signals(syscall.SIGINT), nil, ""},
		{"HUP", nil, signals(syscall.SIGHUP), nil, ""},
		{"USR1", nil, signals(syscall.SIGUSR1), nil, ""},
		{"a crash", nil, rank(1, syscall.SIGABRT), []*platform{openmpi, mpich}, ""},
		{"own program, done", []string{"runner.max_steps=2"}, nil, nil, "./examples/embodied"},
		{"own program, kill -9", nil, rank(1, syscall.SIGKILL), []*platform{openmpi, mpich}, "./examples/embodied"},
	}
	for _, e := range endings {
		for _, p := range platforms {
			name := e.name + "/" + p.name
			if e.on != nil && !slices.Contains(e.on, p) ||
				!full && !slices.Contains([]string{"failure/local", "kill -9/openmpi", "TERM/mpich"}, name) {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				program := p.program(t, cmp.Or(e.main, ".")) // or skip the test
				dir := t.TempDir()
				writeFile(t, dir, "served.yaml", served)
				script := writeFile(t, dir, "family", fmt.Sprintf(family, program))
				test.OK(t, os.Chmod(script, 0o777))
				writeFile(t, dir, "job.yaml", strings.ReplaceAll(fmt.Sprintf(killed, 1000000, script),
					" bridge serve -c served.yaml", ""))
				j := p.startProgram(t, program, dir, 2, append([]string{"-c", "job.yaml", "env.train.external.n=1"},
					e.args...)...)
				if run := filepath.Join(dir, "logs", "run"); e.do != nil {
					poll(t, j, func() bool { return len(readMetrics(t, run)) > 0 })
					test.Equal(t, len(j.children()), 2, "simulators")
					e.do(t, j, run)
				}
				r := j.result() // the result fails if a process is left
				t.Logf("exit code %d, the last process ended %v later", r.code, j.lasted.Round(time.Millisecond))
				if e.do == nil && (r.code == 0) != strings.HasSuffix(e.name, "done") {
					t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
				}
			})
		}
	}
}

// drifting is training on the drift of testdata/bridge. Episodes take four steps, and every second iteration ends in
// the middle of episodes.
const drifting = `
cluster: {component_placement: {actor: 0, env: 0, rollout: 0}}
runner: {max_steps: 6, val_check_interval: 3, save_interval: 3, logger: {experiment_name: run}}
env:
  train: {env_type: external, total_num_envs: 4, max_steps_per_rollout_epoch: 10}
  eval: {total_num_envs: 4, max_steps_per_rollout_epoch: 8, video_cfg: {width: 32, height: 32, num_envs: 3}}
algorithm: {gamma: 0.95, gae_lambda: 0.9, update_epoch: 2}
actor: {micro_batch_size: 20, global_batch_size: 20, optim: {lr: 3.0e-3}}
`

// drift returns the command of the drift simulator in Python, or in C.
func drift(t *testing.T, lang string) string {
	t.Helper()
	source, err := filepath.Abs("testdata/bridge/drift." + map[string]string{"Python": "py", "C": "c"}[lang])
	test.OK(t, err)
	if lang == "Python" {
		return python(t) + " " + source
	}
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("no gcc: scripts/setup test installs it")
	}
	program := filepath.Join(t.TempDir(), "drift")
	if out, err := exec.Command(gcc, "-std=c99", "-Wall", "-Wextra", "-Werror", "-I"+root+"/clients/c", "-o", program,
		source, root+"/clients/c/rlb.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return program
}

// TestChildrenResume: a run that stopped within episodes goes on as if it had not stopped, also on other ranks and with
// other children. If children cannot restore a state, the run says so and begins other episodes. The metrics of an
// episode are means over the whole episode, resumed or not.
func TestChildrenResume(t *testing.T) {
	t.Parallel()
	const warning = "warning: drift cannot save its state: a resumed run will begin new episodes, and not be " +
		"bit-identical"
	for _, lang := range []string{"Python", "C"} {
		t.Run(lang, func(t *testing.T) {
			command, whole := drift(t, lang), t.TempDir()
			writeFile(t, whole, "job.yaml", drifting)
			local.ok(t, whole, 0, "-c", "job.yaml", "env.train.external.command="+command)
			want := readMetrics(t, filepath.Join(whole, "logs", "run"))
			want.checkWhole(t, 6)
			for _, c := range []struct {
				name, argument string
				more           []string // of the half that goes on
				warnings       int      // number of warnings in each half
			}{
				{"the same", "", nil, 0},
				{"two children", "", []string{"env.train.external.n=2"}, 0},
				{"two ranks", "", []string{"cluster.component_placement.env=0-1"}, 0},
				{"no state", " bare", []string{"cluster.component_placement.env=0-1"}, 1},
			} {
				dir := t.TempDir()
				writeFile(t, dir, "job.yaml", drifting)
				for _, half := range [][]string{{steps(3)}, append(c.more, steps(6), "--resume", "auto")} {
					args := append([]string{"-c", "job.yaml", "env.train.external.command=" + command + c.argument},
						half...)
					if r := local.ok(t, dir, 0, args...); strings.Count(r.stderr, warning) != c.warnings {
						t.Errorf("%s, %q: want %q %d times in\n%s", c.name, half, warning, c.warnings, r.stderr)
					}
				}
				got := readMetrics(t, filepath.Join(dir, "logs", "run"))
				if diff := got.diff(want); (diff == "") != (c.warnings == 0) {
					t.Errorf("%s: with a state the metrics are those of the undisturbed run, and without others:\n%s",
						c.name, diff)
				}
				for _, m := range got {
					for name, mean := range map[string]json.Number{"info/step": "2.5", "info/last": "0.25"} {
						if m["env/"+name] != mean || m["eval/num_trajectories"] != nil && m["eval/"+name] != mean {
							t.Errorf("%s: step %v: env/%s %v, eval/%[3]s %v, want %v", c.name, m["step"], name,
								m["env/"+name], m["eval/"+name], mean)
						}
					}
				}
				if got[3]["env/info/born"] == got[0]["env/info/born"] {
					t.Errorf("%s: env/info/born of steps 1 and 4 is %v: the episodes of the beginning came again",
						c.name, got[0]["env/info/born"])
				}
			}
		})
	}
}

// TestOtherSimulator: where a simulator has other observations than its run, evaluations and resumes give the numbers.
func TestOtherSimulator(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, dir, "served.yaml", served)
	writeFile(t, dir, "job.yaml", good)
	simulator := []string{"-c", "job.yaml", "env.train.env_type=external",
		"env.train.external.command=[" + local.program(t, ".") + ",bridge,serve,-c,served.yaml]"}
	local.ok(t, dir, 0, simulator...)
	writeFile(t, dir, "served.yaml", strings.Replace(served, "CartPole-v1", "Acrobot-v1", 1))
	const want = "logs/job/checkpoints/global_step_2: the simulator shows 6 numbers, the run saw 4; the simulator " +
		"takes Discrete(3), the run chose from Discrete(2)"
	for _, args := range [][]string{append([]string{"eval"}, simulator...), append(simulator, "--resume", "auto")} {
		if r := local.run(t, dir, 0, args...); r.code != 2 || !strings.Contains(r.stderr, want) {
			t.Errorf("%q: exit code %d, want 2 and %q in\n%s", args, r.code, want, r.stderr)
		}
	}
}

// TestChildrenFilmed: children draw their initial states and each step, however they are started and share the
// environments. If children cannot draw, the run is refused before it begins.
func TestChildrenFilmed(t *testing.T) {
	t.Parallel()
	film := []string{"-c", "job.yaml", steps(1), "runner.val_check_interval=1", "runner.save_interval=-1",
		"env.eval.video_cfg.save_video=true"}
	for _, lang := range []string{"Python", "C"} {
		t.Run(lang, func(t *testing.T) {
			command := drift(t, lang)
			var first string
			for _, c := range []struct {
				name    string
				args    []string
				connect int // number of simulators that connect
			}{
				{"one child", []string{"env.train.external.command=" + command}, 0},
				{"two children", []string{"env.train.external.command=" + command, "env.train.external.n=2"}, 0},
				{"children of two", []string{"env.train.external.command=" + command + " pair"}, 0},
				{"one that connects for each use", []string{"env.train.external.listen=unix:s"}, 2},
			} {
				dir := t.TempDir()
				writeFile(t, dir, "job.yaml", drifting)
				j := local.start(t, dir, 0, append(film, append(c.args, "env.train.external.start_timeout=90s")...)...)
				for range c.connect {
					words := strings.Fields(command)
					child := exec.Command(words[0], words[1:]...)
					child.Dir, child.Env = dir, append(os.Environ(), "RLB_ADDR=unix:s")
					test.OK(t, child.Start())
					defer child.Wait()
				}
				if r := j.result(); r.code != 0 {
					t.Fatalf("%s: exit code %d\n%s%s", c.name, r.code, r.stdout, r.stderr)
				}
				path := filepath.Join(dir, "logs", "run", "videos", "global_step_1.png")
				file := readFile(t, path)
				if first == "" {
					first = file
					checkDriftFilm(t, path)
				} else if file != first {
					t.Errorf("%s: not the film of one child", c.name)
				}
			}

			dir := t.TempDir()
			writeFile(t, dir, "job.yaml", drifting)
			local.ok(t, dir, 0, "render", "-c", "job.yaml", "env.train.external.command="+command+" pair",
				"env.eval.video_cfg.num_envs=1")
			if picture, err := os.ReadFile(filepath.Join(dir, "initial_states.png")); err != nil ||
				!bytes.HasPrefix(picture, []byte("\x89PNG")) {
				t.Errorf("no picture: %v", err)
			}
			bare := local.ok(t, dir, 0, append(film, "env.train.external.command="+command+" bare")...)
			if count(bare.stderr,
				"warning: env.eval.video_cfg.save_video: there is no film, because drift draws no pictures") != 1 {
				t.Errorf("simulators without pictures: %s", bare.stderr)
			}
		})
	}
}

// checkDriftFilm checks that a film of three environments has the first states and four steps, drawn as drift does.
func checkDriftFilm(t *testing.T, path string) {
	t.Helper()
	frames, _ := videotest.Frames(t, path)
	if len(frames) != 5 {
		t.Fatalf("%d frames, want the first states and four steps", len(frames))
	}
	near := func(got uint32, want int) bool { return int(got>>8) == want }
	const caption = 2 * 13 // below each picture
	for step, img := range frames {
		if img.Bounds() != image.Rect(0, 0, 64, 64+2*caption) {
			t.Fatalf("frame %d of %v, want two pictures side by side, and one below", step, img.Bounds())
		}
		var numbers [3]uint32
		for n := range numbers {
			x, y := 32*(n%2)+16, (32+caption)*(n/2)
			red, green, blue, _ := img.At(x, y+6).RGBA()
			if !near(red, 60*step) || !near(green, 0) || !near(blue, 0) {
				t.Errorf("frame %d, environment %d: red, green, blue are %d, %d, %d above, want %d, 0, 0", step, n,
					red>>8, green>>8, blue>>8, 60*step)
			}
			red, green, numbers[n], _ = img.At(x, y+26).RGBA()
			if !near(red, 0) || !near(green, 0) || near(numbers[n], 0) {
				t.Errorf("frame %d, environment %d: red, green, blue are %d, %d, %d below, want blue alone", step, n,
					red>>8, green>>8, numbers[n]>>8)
			}
		}
		if step == 0 && (numbers[0] == numbers[1] || numbers[1] == numbers[2] || numbers[2] == numbers[0]) {
			t.Errorf("episodes that begin with numbers of brightness %d: want three", numbers)
		}
	}
}
