package slurm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/test"
)

// cartpole is a job of four ranks on two nodes. It ends after 30 short iterations. Its learning rate does not depend on
// the number of iterations.
const cartpole = `cluster:
  num_nodes: 2
  component_placement: {actor: 0-1, env: 2-3, rollout: 2-3}
runner: {max_steps: 30, val_check_interval: 10, logger: {experiment_name: NAME}}
env:
  train: {env_type: CartPole-v1, total_num_envs: 48, max_steps_per_rollout_epoch: 16, max_episode_steps: 12}
  eval: {total_num_envs: 12, max_steps_per_rollout_epoch: 12}
algorithm: {gamma: 0.99, gae_lambda: 0.95, update_epoch: 2, normalize_advantages: minibatch}
actor: {micro_batch_size: 32, global_batch_size: 384, model: {hidden_sizes: [32]}, optim: {lr: 3.0e-3}}
`

// An endless run ends only on request. Its iterations take 50 ms or more.
const (
	endless = "runner.max_steps=1000000"
	slowly  = "env.train.step_delay=3ms"
)

// The launchers: the mpirun of the MPI, whatever its name is, and Slurm's srun.
const (
	mpirun = "mpirun"
	srun   = "srun"
)

// TestSlurm runs all scripts in one Slurm, side by side.
func TestSlurm(t *testing.T) {
	m := startMachine(t)
	for _, c := range []struct {
		name string
		test func(t *testing.T, m *machine)
	}{
		{"requeue at the time limit", testRequeue},
		{"requeue, bounded", testRequeueBound},
		{"train", testTrain},
		{"train until the signal", testSignal},
		{"train until the end that Slurm tells", testEndTime},
		{"train, refused", testRefused},
		{"train, MPI_Finalize hangs", testFinalize},
		{"hetjob", testHetjob},
		{"array", testSweep},
		{"bench", testBench},
		{"solvers", testSolvers},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, m)
		})
	}
}

// train-requeue.sbatch gets Slurm's signal before its time limit of a minute, and requeues itself. The run ends like an
// undisturbed run.
func testRequeue(t *testing.T, m *machine) {
	const run = "requeue"
	config := m.config(t, run, endless)
	j := m.submit(t, submission{
		env: knobs(config, m.openmpi, mpirun), options: []string{"--time=1", "--signal=B:USR1@30"},
		script: "train-requeue", args: []string{slowly},
	})
	j.until("queued again", func(s state) bool { return s["Restarts"] == "1" && s["JobState"] == "PENDING" })
	m.wantStatus(t, run, "checkpointed")
	steps := len(m.metrics(t, run)) + 4
	m.config(t, run, fmt.Sprint("runner.max_steps=", steps)) // the submitted job keeps these settings
	// Slurm would wait for two minutes. One second is necessary, because a node refuses a job that starts in the second
	// in which the job was killed.
	m.command(t, nil, "scontrol", "update", "JobId="+j.id, "StartTime=now+2")
	j.wants("COMPLETED 0:0")
	m.same(t, run, m.undisturbed(t, run, steps))
	if out := j.output(); strings.Contains(out, "starting anew") || strings.Count(out, "resuming from") != 1 {
		t.Errorf("the output is not of two starts, the second from a checkpoint:\n%s", out)
	}
}

// train-requeue.sbatch does not requeue itself forever.
func testRequeueBound(t *testing.T, m *machine) {
	const run = "bound"
	j := m.submit(t, submission{
		env: append(knobs(m.config(t, run), m.openmpi, srun), "RESTARTS=0"), script: "train-requeue",
		args: []string{endless, slowly},
	})
	m.untilStep(t, run, 3)
	j.signal()
	j.wants("FAILED 75:0")
	m.wantStatus(t, run, "checkpointed")
}

// train.sbatch gives the same metrics under every launcher as without one.
func testTrain(t *testing.T, m *machine) {
	want := m.undisturbed(t, "train", 30)
	for run, env := range map[string][]string{
		"openmpi-mpirun": knobs("", m.openmpi, mpirun),
		"openmpi-srun":   knobs("", m.openmpi, srun),
		"mpich-mpirun":   knobs("", m.mpich, mpirun),
		"mpich-srun":     append(knobs("", m.mpich, srun), "PMI=pmi2"),
	} {
		t.Run(run, func(t *testing.T) {
			env[0] += m.config(t, run)
			m.submit(t, submission{env: env, script: "train"}).wants("COMPLETED 0:0")
			m.same(t, run, want)
		})
	}
}

// train.sbatch ends with code 75 and a checkpoint after Slurm's signal. Submitted with --resume auto, it resumes.
func testSignal(t *testing.T, m *machine) {
	const run = "signal"
	s := submission{env: knobs(m.config(t, run), m.openmpi, srun), script: "train", args: []string{endless, slowly}}
	j := m.submit(t, s)
	m.untilStep(t, run, 3)
	j.signal()
	j.wants("FAILED 75:0")
	m.wantStatus(t, run, "checkpointed")
	steps := len(m.metrics(t, run)) + 2
	s.args = []string{"--resume", "auto", slowly, fmt.Sprint("runner.max_steps=", steps)}
	m.submit(t, s).wants("COMPLETED 0:0")
	m.same(t, run, m.undisturbed(t, run, steps))
}

// A job that knows its end time from Slurm stops in time, without a signal. (Slurm tells the end time since version
// 23.02.)
func testEndTime(t *testing.T, m *machine) {
	const run = "end"
	env := append(knobs(m.config(t, run), m.openmpi, mpirun),
		fmt.Sprint("SLURM_JOB_END_TIME=", time.Now().Add(10*time.Second).Unix()))
	m.submit(t, submission{env: env, options: []string{"--time=1"}, script: "train",
		args: []string{endless, slowly}}).wants("FAILED 75:0")
	m.wantStatus(t, run, "checkpointed")
}

// A mistake in the configuration determines the exit code of the job.
func testRefused(t *testing.T, m *machine) {
	m.submit(t, submission{
		env: knobs(m.config(t, "refused"), m.openmpi, mpirun), script: "train", args: []string{"cluster.num_nodes=3"},
	}).wants("FAILED 2:0")
}

// A job whose MPI_Finalize does not return on a rank ends with its exit code under every launcher.
func testFinalize(t *testing.T, m *machine) {
	for mpi, p := range map[string]platform{"openmpi": m.openmpi, "mpich": m.mpich} {
		mpicc := "mpicc." + mpi
		if _, err := exec.LookPath(mpicc); err != nil {
			mpicc = "mpicc"
		}
		hang := filepath.Join(m.dir, "hang-"+mpi+".so")
		if text, err := exec.Command(mpicc, "-shared", "-fPIC", "-o", hang,
			filepath.Join(root, "spmd", "mpi", "testdata", "hang.c")).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		// the launcher must not load the library
		hanging := m.write(t, "hanging-"+mpi, fmt.Sprintf(
			"#!/bin/sh\nHANG_BEFORE=1 LD_PRELOAD=%s exec %s \"$@\"\n", hang, p.rlinf))
		test.OK(t, os.Chmod(hanging, 0o755))
		for _, launcher := range []string{mpirun, srun} {
			for want, args := range map[string][]string{"COMPLETED 0:0": nil,
				"FAILED 75:0": {endless, "runner.max_time=1ms"}} {
				run := fmt.Sprint("finalize-", mpi, "-", launcher, "-", len(args))
				t.Run(run, func(t *testing.T) {
					t.Parallel()
					env := append(knobs(m.config(t, run), platform{hanging, p.mpirun}, launcher), "PMI=pmix")
					if mpi == "mpich" {
						env = append(env, "PMI=pmi2")
					}
					j := m.submit(t, submission{env: env, script: "train", args: args})
					j.wants(want)
					if out := j.output(); strings.Count(out, "rank 1 hangs\n") != 1 {
						t.Errorf("rank 1 did not hang:\n%s", out)
					}
				})
			}
		}
	}
}

// The script that rlinf slurm prints for a job with two kinds of nodes runs unchanged.
//
// On busy cores the srun of Slurm 22.05 sometimes waits forever when it starts the two steps of such a job, although
// neither step has a process (3 of some 60 jobs). Without a rank this cannot be a fault of rlinf, so the test tries
// again.
func testHetjob(t *testing.T, m *machine) {
	const tries = 3
	for try := 1; ; try++ {
		run := fmt.Sprint("het", try)
		config := m.config(t, run)
		script := m.write(t, run+".sbatch", m.command(t, nil, m.openmpi.rlinf, "slurm", "-c", config, "--template",
			"hetjob", "--time", "5", "runner.max_steps=20"))
		j := job{t, m,
			strings.TrimSpace(m.command(t, []string{"RLINF=" + m.openmpi.rlinf}, "sbatch", "--parsable", script))}
		if try < tries && j.deserted(config) {
			t.Logf("job %s: srun waits, and there is no rank: tried again", j.id)
			m.command(t, nil, "scancel", j.id)
			continue
		}
		j.wants("COMPLETED 0:0\nCOMPLETED 0:0")
		m.same(t, run, m.undisturbed(t, run, 20))
		return
	}
}

// The script that rlinf slurm prints for a sweep trains each seed with each set of overrides, under separate names. One
// task more is an error.
func testSweep(t *testing.T, m *machine) {
	const run = "sweep"
	config := m.config(t, run)
	text := m.command(t, nil, m.mpich.rlinf, "slurm", "-c", config, "--template", "sweep", "runner.max_steps=10")
	for from, to := range map[string]string{
		"\nSEEDS=(1 2 3)": "\nSEEDS=(7 8)",
		"\nSETS=(\"\")":   "\nSETS=(\"\" \"actor.optim.lr=1e-3 algorithm.gamma=0.9\")",
	} {
		if strings.Count(text, from) != 1 {
			t.Fatalf("no %q in\n%s", from, text)
		}
		text = strings.Replace(text, from, to, 1)
	}
	j := m.submit(t, submission{
		env: []string{"RLINF=" + m.mpich.rlinf, "LAUNCHER=" + m.mpich.mpirun}, options: []string{"--array=0-4"},
		script: m.write(t, "sweep.sbatch", text),
	})
	ended := map[string]int{}
	for line := range strings.Lines(j.ended()) {
		ended[strings.TrimSpace(line)]++
	}
	if want := map[string]int{"COMPLETED 0:0": 4, "FAILED 2:0": 1}; !maps.Equal(ended, want) {
		t.Errorf("tasks ended with %v, want %v", ended, want)
	}
	for v, set := range [][]string{nil, {"actor.optim.lr=1e-3", "algorithm.gamma=0.9"}} {
		for _, seed := range []int{7, 8} {
			name := fmt.Sprintf("sweep-%d-seed%d", v, seed)
			m.same(t, name, m.undisturbed(t, name, 10, append(set, fmt.Sprint("runner.seed=", seed))...))
		}
	}
}

// solvers.sbatch trains on solvers of the same job, under every launcher and with any number of ranks in a solver. The
// metrics are those of children over pipes.
func testSolvers(t *testing.T, m *machine) {
	const source, clients, run = root + "/internal/e2e/testdata/bridge/point.c", root + "/clients/c/", "solvers"
	const task = `runner: {max_steps: 4, val_check_interval: 2, logger: {experiment_name: NAME}}
cluster: {component_placement: {"actor,rollout": 0, env: 1}}
env:
  train: {env_type: external, total_num_envs: 4, max_steps_per_rollout_epoch: 32, external: {HOW}}
  eval: {total_num_envs: 2, max_steps_per_rollout_epoch: 40}
actor: {micro_batch_size: 64, global_batch_size: 64, optim: {lr: 3.0e-3}}
`
	config := func(run, how string) string {
		return m.write(t, run+".yaml", strings.NewReplacer("NAME", run, "HOW", how).Replace(task))
	}
	compile := func(name string, args ...string) string {
		program := filepath.Join(m.dir, name)
		if text, err := exec.Command(args[0], append(args[1:], "-O2", "-I"+clients, "-o", program, source,
			clients+"rlb.c")...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, text)
		}
		return program
	}
	m.command(t, nil, m.openmpi.rlinf, "-c", config(run, "command: ["+compile("point", "gcc")+"]"))
	want := m.metrics(t, run)
	const count = 6 // solvers: one for each environment
	for mpi, p := range map[string]platform{"openmpi": m.openmpi, "mpich": m.mpich} {
		mpicc := "mpicc." + mpi
		if _, err := exec.LookPath(mpicc); err != nil {
			mpicc = "mpicc"
		}
		solver := compile("point-"+mpi, mpicc, "-DWITH_MPI", clients+"rlb_mpi.c")
		for _, c := range []struct {
			launcher string
			ranks    int // of a solver
		}{{mpirun, 2}, {srun, 1}, {srun, 3}} { // with 2 or 3 ranks the third solver is on both nodes
			run := fmt.Sprint("solvers-", mpi, "-", c.launcher, "-", c.ranks)
			t.Run(run, func(t *testing.T) {
				env := append(knobs(config(run, "listen: mpi"), p, c.launcher), "SOLVER="+solver, "RANKS=2",
					fmt.Sprint("SOLVER_RANKS=", c.ranks))
				if mpi == "mpich" {
					env = append(env, "PMI=pmi2")
				}
				tasks := 2 + count*c.ranks
				m.submit(t, submission{
					env:     env,
					options: []string{fmt.Sprint("--ntasks=", tasks), fmt.Sprint("--ntasks-per-node=", tasks/2)},
					script:  "solvers",
				}).wants("COMPLETED 0:0")
				m.same(t, run, want)
			})
		}
	}
}

// bench.sbatch measures on all ranks, checks the results, and reports mistakes in its arguments.
func testBench(t *testing.T, m *machine) {
	shared := []string{"--exclusive=user"} // the script asks for exclusive nodes, which this Slurm would not have
	for name, env := range map[string][]string{
		"openmpi-mpirun": knobs("", m.openmpi, mpirun), "mpich-srun": append(knobs("", m.mpich, srun), "PMI=pmi2"),
	} {
		file := filepath.Join(m.dir, "bench-"+name+".json")
		m.submit(t, submission{
			env: env, options: shared, script: "bench", args: []string{"-n", "5", "--algo", "auto,ring", "--sizes",
				"8,64K", "--out", file},
		}).wants("COMPLETED 0:0")
		text, err := os.ReadFile(file)
		test.OK(t, err)
		var report struct {
			Rows []struct{ N, Wrong, Checked int }
		}
		test.OK(t, json.Unmarshal(text, &report))
		if len(report.Rows) != 4 {
			t.Errorf("%s: %d rows, want one for each of two algorithms and two sizes:\n%s", name, len(report.Rows),
				text)
		}
		for _, r := range report.Rows {
			if r.N != 4 || r.Checked == 0 || r.Wrong != 0 {
				t.Errorf("%s: %+v, want 4 ranks, results checked and none wrong", name, r)
			}
		}
	}
	m.submit(t, submission{env: knobs("", m.openmpi, srun), options: shared, script: "bench",
		args: []string{"--sizes", "many"}}).wants("FAILED 2:0")
}

// config writes the configuration of a run, with overrides of keys of the section runner, and returns its path.
func (m *machine) config(t *testing.T, run string, overrides ...string) string {
	t.Helper()
	text := strings.ReplaceAll(cartpole, "NAME", run)
	for _, o := range overrides {
		value := strings.TrimPrefix(o, "runner.max_steps=")
		text = strings.Replace(text, "max_steps: 30", "max_steps: "+value, 1)
	}
	return m.write(t, run+".yaml", text)
}

// write writes a file and returns its path.
func (m *machine) write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(m.dir, name)
	test.OK(t, os.WriteFile(path, []byte(text), 0o666))
	return path
}

// knobs sets the environment variables of the scripts: the program, the MPI, and the launcher.
func knobs(config string, p platform, launcher string) []string {
	if launcher == mpirun {
		launcher = p.mpirun
	}
	return []string{"CONFIG=" + config, "RLINF=" + p.rlinf, "LAUNCHER=" + launcher}
}

func (m *machine) folder(run string) string { return filepath.Join(m.dir, "logs", run) }

func (m *machine) wantStatus(t *testing.T, run, want string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.folder(run), "STATUS"))
	test.OK(t, err)
	if got := strings.TrimSpace(string(text)); got != want {
		t.Errorf("%s: STATUS is %s, want %s", run, got, want)
	}
}

// metrics returns the metrics of a run, an entry for each iteration, without metrics of the clock.
func (m *machine) metrics(t *testing.T, run string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.folder(run), "metrics.jsonl"))
	test.OK(t, err)
	for line := range bytes.Lines(text) {
		in := json.NewDecoder(bytes.NewReader(line))
		in.UseNumber() // to the last digit
		var entry map[string]any
		if err := in.Decode(&entry); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		maps.DeleteFunc(entry, func(name string, _ any) bool { return !metrics.Repeats(name) })
		lines = append(lines, fmt.Sprint(entry)) // with the names in order
	}
	return lines
}

// undisturbed runs the same job on goroutine ranks, for so many iterations, and returns its metrics.
func (m *machine) undisturbed(t *testing.T, run string, steps int, overrides ...string) []string {
	t.Helper()
	run += "-undisturbed"
	m.command(t, nil, m.openmpi.rlinf,
		append([]string{"-c", m.config(t, run), fmt.Sprint("runner.max_steps=", steps), "cluster.num_nodes=0"},
			overrides...)...)
	lines := m.metrics(t, run)
	if len(lines) != steps || !strings.Contains(lines[len(lines)-1], "eval/return") {
		t.Fatalf("the undisturbed run has %d iterations, the last one %s", len(lines), lines[len(lines)-1])
	}
	return lines
}

// same checks that a run is done, and has the metrics of an undisturbed run.
func (m *machine) same(t *testing.T, run string, want []string) {
	t.Helper()
	got := m.metrics(t, run)
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Fatalf("%s: not the metrics of the undisturbed run in line %d:\n%s\nwant\n%s", run, i+1, got[i], want[i])
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d iterations, want %d", run, len(got), len(want))
	}
	m.wantStatus(t, run, "done")
}

// untilStep waits until a run has taken some steps.
func (m *machine) untilStep(t *testing.T, run string, steps int) {
	t.Helper()
	path := filepath.Join(m.folder(run), "metrics.jsonl")
	for start := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if text, _ := os.ReadFile(path); bytes.Count(text, []byte("\n")) >= steps {
			return
		}
		if time.Since(start) > hung {
			t.Fatalf("%s: no %d steps after %v", run, steps, hung)
		}
	}
}
