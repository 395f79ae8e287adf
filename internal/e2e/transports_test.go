package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/internal/test"
)

// A solver is a simulator of testdata/bridge, in one of the languages with a client.
type solver struct {
	lang  string
	needs string // how to install what is missing
	// returns the command. mpi asks for a program in the MPI job of rlinf, with Open MPI
	build func(t *testing.T, mpi bool) ([]string, error)
	serve bool // whether it plays several environments, with one more argument
}

// solvers play the same task, with the same results.
func solvers() []solver {
	const folder, c, fortran = "testdata/bridge/", root + "/clients/c/", root + "/clients/fortran/"
	compile := func(t *testing.T, line ...string) ([]string, error) {
		out := filepath.Join(t.TempDir(), "point")
		if strings.Contains(line[0], "fort") {
			line = append(line, "-J"+filepath.Dir(out)) // the folder for modules
		}
		cmd := exec.Command(line[0], append(line[1:], "-O2", "-ffp-contract=off", "-I"+c, "-o", out)...)
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%v: %w\n%s", cmd.Args, err, text)
		}
		return []string{out}, nil
	}
	return []solver{
		{"C", "apt-get install gcc libopenmpi-dev", func(t *testing.T, mpi bool) ([]string, error) {
			if mpi {
				return compile(t, mpicc(), "-DWITH_MPI", folder+"point.c", c+"rlb.c", c+"rlb_mpi.c")
			}
			return compile(t, "gcc", folder+"point.c", c+"rlb.c")
		}, true},
		{"Python", "apt-get install python3-numpy python3-mpi4py", func(t *testing.T, mpi bool) ([]string, error) {
			module := map[bool]string{false: "numpy", true: "mpi4py"}[mpi]
			for _, python := range []string{"python3", "/usr/bin/python3"} {
				if exec.Command(python, "-c", "import numpy, "+module).Run() == nil {
					clients, err := filepath.Abs(root + "/clients/python")
					if err != nil {
						return nil, err
					}
					script, err := filepath.Abs(folder + "point.py")
					command := []string{"/usr/bin/env", "PYTHONPATH=" + clients}
					if mpi {
						command = append(command, "RLB_ADDR=mpi")
					}
					return append(command, python, script), err
				}
			}
			return nil, fmt.Errorf("no Python 3 with %s", module)
		}, true},
		{"Fortran", "apt-get install gfortran libopenmpi-dev", func(t *testing.T, mpi bool) ([]string, error) {
			if mpi {
				return compile(t, mpifort(), "-cpp", "-DWITH_MPI", fortran+"rlb.f90", fortran+"rlb_mpi.f90",
					folder+"point.f90", fortran+"rlb_mpi_f.c", c+"rlb.c", c+"rlb_mpi.c")
			}
			return compile(t, "gfortran", "-cpp", fortran+"rlb.f90", folder+"point.f90", c+"rlb.c")
		}, false},
	}
}

// mpicc and mpifort are the compilers of Open MPI.
func mpicc() string   { return first("mpicc.openmpi", "mpicc") }
func mpifort() string { return first("mpifort.openmpi", "mpifort") }

func first(names ...string) string {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return names[len(names)-1]
}

const pointTask = `
runner: {max_steps: 4, val_check_interval: 2, logger: {experiment_name: run}}
env:
  train: {env_type: external, total_num_envs: 4, max_steps_per_rollout_epoch: 48}
  eval: {total_num_envs: 2, max_steps_per_rollout_epoch: 40}
algorithm: {gamma: 0.95, gae_lambda: 0.9, update_epoch: 2, normalize_advantages: minibatch}
actor: {micro_batch_size: 48, global_batch_size: 96, optim: {lr: 3.0e-3, weight_decay: 0}}
`

// pointChildren is the number of solvers that pointTask needs if each plays one environment.
const pointChildren = 4 + 2

// TestTransports: the training of a task is equal, bit for bit, with an environment of this program, and with solvers
// over pipes, sockets, shared memory, or MPI messages, on one rank or two. It is also equal with chunks of actions, in
// which episodes may end in the middle of a chunk.
func TestTransports(t *testing.T) {
	t.Parallel()
	chunks := []string{"actor.model.num_action_chunks=3", "actor.global_batch_size=32", "actor.micro_batch_size=32",
		"env.eval.max_steps_per_rollout_epoch=42"}
	native := func(more ...string) metrics {
		dir := t.TempDir()
		writeFile(t, dir, "job.yaml", components("actor,env,rollout: 0")+pointTask)
		r := local.startProgram(t, local.program(t, "./internal/e2e/testdata/point"), dir, 0,
			append([]string{"-c", "job.yaml", "env.train.env_type=Point"}, more...)...).result()
		if r.code != 0 {
			t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
		}
		return readMetrics(t, filepath.Join(dir, "logs", "run"))
	}
	want, wantOfChunks := native(), native(chunks...)
	want.checkWhole(t, 4)
	wantOfChunks.checkWhole(t, 4)
	for _, s := range solvers() {
		t.Run(s.lang, func(t *testing.T) {
			t.Parallel()
			command, err := s.build(t, false)
			if err != nil {
				t.Skipf("%v; %s", err, s.needs)
			}
			for _, inline := range []bool{false, true} {
				for _, way := range []string{"command", "unix", "tcp"} {
					name := map[bool]string{false: way, true: way + ", inline"}[inline]
					if diff := train(t, name, command, way, inline).diff(want); diff != "" {
						t.Errorf("%s: not the metrics of the environment without a bridge:\n%s", name, diff)
					}
				}
			}
			if diff := train(t, "chunks", command, "command", false, chunks...).diff(wantOfChunks); diff != "" {
				t.Errorf("chunks: not the metrics of the environment without a bridge:\n%s", diff)
			}
			if s.serve {
				one := append([]string{"env.train.external.n=1"}, chunks...)
				if diff := train(t, "chunks, served", slices.Concat(command, []string{"served"}), "command", false,
					one...).diff(wantOfChunks); diff != "" {
					t.Errorf("chunks of environments that wait for each other: not the metrics of the environment "+
						"without a bridge:\n%s", diff)
				}
			}
			t.Run("mpi", func(t *testing.T) { s.overMPI(t, want) })
		})
	}
}

// overMPI trains and evaluates with solvers that are processes of the same MPI job.
func (s solver) overMPI(t *testing.T, want metrics) {
	program := openmpi.program(t, ".") // or skip the test
	command, err := s.build(t, true)
	if err != nil {
		t.Skipf("%v; %s", err, s.needs)
	}
	run := func(dir string, np, solvers int, args ...string) result {
		args = append([]string{"-c", "job.yaml", "env.train.external.listen=mpi"}, args...)
		for range solvers {
			args = append(append(args, ":", "-np", "1"), command...)
		}
		r := openmpi.startProgram(t, program, dir, np, args...).result()
		if r.code != 0 {
			t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
		}
		return r
	}
	for _, placement := range []string{"actor,env,rollout: 0", "actor,rollout: 0\n    env: 1"} {
		dir := t.TempDir()
		writeFile(t, dir, "job.yaml", components("%s", placement)+pointTask)
		np := 1 + strings.Count(placement, "\n")
		run(dir, np, pointChildren, "runner.save_interval=4")
		if diff := readMetrics(t, filepath.Join(dir, "logs", "run")).diff(want); diff != "" {
			t.Errorf("on %d ranks, not the metrics of the environment without a bridge:\n%s", np, diff)
		}
		r := run(dir, np, 2, "runner.only_eval=true")
		last, err := strconv.ParseFloat(fmt.Sprint(want[3]["eval/return"]), 64)
		if line := fmt.Sprintf("eval/return         %.4g\n", last); err != nil || !strings.Contains(r.stdout, line) {
			t.Errorf("an evaluation alone, on %d ranks, said\n%s\nwant %s", np, r.stdout, line)
		}
	}
}

// TestSolversMissing: a job waits for missing solvers of the same MPI job only for start_timeout. The message has the
// expected number of solvers.
func TestSolversMissing(t *testing.T) {
	t.Parallel()
	program := openmpi.program(t, ".") // or skip the test
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", components("actor,env,rollout: 0")+`
runner: {max_steps: 2, val_check_interval: 1}
env: {train: {env_type: external, total_num_envs: 2, max_steps_per_rollout_epoch: 8, external: {listen: mpi, n: 2, start_timeout: 10s}}}
actor: {micro_batch_size: 16, global_batch_size: 16, optim: {lr: 1.0e-3}}
`)
	r := openmpi.startProgram(t, program, dir, 1, "-c", "job.yaml", ":", "-np", "1", openmpi.faulty(t, dir),
		"nan").result()
	for _, says := range []string{"waiting for the solvers of this MPI job\n",
		"1 solvers have come in 10s (start_timeout), expected 4, 2 for env.train.external, 2 for env.eval.external\n"} {
		if strings.Count(r.stderr, says) != 1 {
			t.Errorf("want once: %s\n%s%s", says, r.stdout, r.stderr)
		}
	}
	test.Equal(t, r.code, 2, "exit code")
}

// faulty builds the solver of testdata/bridge/faulty.c in dir.
func (p *platform) faulty(t *testing.T, dir string) string {
	t.Helper()
	solver := filepath.Join(dir, "solver")
	const clients = root + "/clients/c/"
	cc := exec.Command(first("mpicc."+p.name, "mpicc"), "testdata/bridge/faulty.c", clients+"rlb.c",
		clients+"rlb_mpi.c", "-I"+clients, "-o", solver)
	if text, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cc.Args, err, text)
	}
	return solver
}

// TestSolverFails: if a solver of the same MPI job fails, no other solver can replace it. The job stops with a
// checkpoint, and says why. It ends even if the solver does not.
func TestSolverFails(t *testing.T) {
	t.Parallel()
	const hangs = "no answer to the shutdown within 5s: a solver hangs, and the job ends without it"
	const task = `
cluster: {component_placement: {"actor,rollout": 0, env: %d}}
runner: {max_steps: 1000, val_check_interval: -1, save_interval: -1, logger: {experiment_name: run}}
env: {train: {env_type: external, total_num_envs: 1, max_steps_per_rollout_epoch: 8, external: {listen: mpi, step_timeout: %s}}}
actor: {micro_batch_size: 8, global_batch_size: 8, optim: {lr: 1.0e-3}}
`
	for _, p := range []*platform{openmpi, mpich} {
		for _, c := range []struct {
			fault      string
			timeout    string
			rank       int // the rank with the environments
			says, ends string
		}{
			{"nan", "1m", 0, "environment 0: reward NaN", ""},
			{"hang", "5s", 0, "no answer in 5s (external.step_timeout)", "solver on process 1: " + hangs},
			{"hang", "5s", 1, "no answer in 5s (external.step_timeout)", "solver on process 2: " + hangs},
		} {
			t.Run(fmt.Sprintf("%s/%s, rank %d", p.name, c.fault, c.rank), func(t *testing.T) {
				t.Parallel()
				program := p.program(t, ".") // or skip the test
				dir := t.TempDir()
				solver := p.faulty(t, dir)
				writeFile(t, dir, "job.yaml", fmt.Sprintf(task, c.rank, c.timeout))
				// which sees that no process is left
				r := p.startProgram(t, program, dir, c.rank+1, "-c", "job.yaml", ":", "-np", "1", solver,
					c.fault).result()
				why := fmt.Sprintf("rank %d: environments 0-0 of faulty: solver on process %d: %s",
					c.rank, c.rank+1, c.says)
				const then = "\nno other solver of this MPI job can take its place\nstopping, with a checkpoint\n"
				if r.code != 1 || strings.Count(r.stderr, why) != 1 || strings.Count(r.stderr, then) != 1 ||
					strings.Contains(r.stderr, "restart") ||
					strings.Contains(r.stderr, "no answer to the shutdown") != (c.ends != "") ||
					!strings.Contains(r.stderr, c.ends) {
					t.Errorf("exit code %d, want 1, and once:\n%s%s%s", r.code, why, then, c.ends)
				}
				run := filepath.Join(dir, "logs", "run")
				if last, err := checkpoint.Load(filepath.Join(run, "checkpoints", "latest")); err != nil ||
					last.Step < 2 {
					t.Errorf("latest checkpoint: %+v, %v", last, err)
				}
				if t.Failed() {
					t.Logf("%s%s", r.stdout, r.stderr)
				}
				test.Equal(t, readStatus(t, run), runfolder.Failed, "STATUS")
			})
		}
	}
}

// train trains the point in one process. Its solvers connect over this transport.
func train(t *testing.T, name string, command []string, way string, inline bool, more ...string) metrics {
	t.Helper()
	dir := t.TempDir()
	writeFile(t, dir, "job.yaml", components("actor,env,rollout: 0")+pointTask)
	args := append([]string{"-c", "job.yaml", fmt.Sprint("env.train.external.shared_memory=", !inline)}, more...)
	var address string
	switch way {
	case "command":
		args = append(args, "env.train.external.command=["+strings.Join(command, ",")+"]")
	case "unix":
		address = "unix:" + filepath.Join(dir, "s")
	case "tcp":
		address = fmt.Sprint("tcp:127.0.0.1:", freePorts(t))
		writeFile(t, dir, "token", "open sesame\n")
		test.OK(t, os.Chmod(filepath.Join(dir, "token"), 0o600))
		args = append(args, "env.train.external.token_file=token")
	}
	if address != "" {
		args = append(args, "env.train.external.listen="+address)
	}
	j := local.start(t, dir, 0, args...)
	if address != "" { // the solvers wait for a listener
		for range pointChildren {
			c := exec.Command(command[0], command[1:]...)
			c.Env = append(os.Environ(), "RLB_ADDR="+address, "RLB_TOKEN_FILE="+filepath.Join(dir, "token"))
			if way == "unix" {
				c.Env = append(os.Environ(), "RLB_ADDR="+address)
			}
			c.Stderr = os.Stderr
			test.OK(t, c.Start())
			defer func() {
				test.Check(t, c.Wait(), "%s: a solver", name)
			}()
		}
	}
	r := j.result()
	if r.code != 0 {
		t.Fatalf("%s: exit code %d\n%s%s", name, r.code, r.stdout, r.stderr)
	}
	return readMetrics(t, filepath.Join(dir, "logs", "run"))
}

// TestSharedCore: a rank that a launcher bound to one core warns that its simulators have only this core.
func TestSharedCore(t *testing.T) {
	t.Parallel()
	program, dir := local.program(t, "."), t.TempDir()
	writeFile(t, dir, "job.yaml", components("actor,env,rollout: 0")+strings.Replace(pointTask, "external",
		"CartPole-v1", 1))
	core := regexp.MustCompile(`\d+`).FindString(runfolder.Binding())
	for _, section := range []string{"env.train", "env.eval"} { // the settings of training also apply to evaluations
		cmd := exec.Command("taskset", "-c", core, program, "-c", "job.yaml", "runner.max_steps=1",
			"runner.val_check_interval=1",
			section+".env_type=external", fmt.Sprintf("%s.external.command=[%s,bridge,serve,-c,job.yaml]", section,
				program))
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if want := "warning: rank 0 is bound to core " + core + ", "; err != nil ||
			strings.Count(string(out), want) != 1 {
			t.Errorf("%s: %v: want %q once in\n%s", section, err, want, out)
		}
	}
}

// TestNativeAndServed: training on an environment of this program is equal, bit for bit, behind the bridge and without
// it.
func TestNativeAndServed(t *testing.T) {
	t.Parallel()
	program := local.program(t, ".")
	dir := t.TempDir()
	const task = `
runner: {max_steps: 4, val_check_interval: 2, logger: {experiment_name: run}}
env:
  train: {env_type: CartPole-v1, total_num_envs: 6, max_steps_per_rollout_epoch: 32}
  eval: {total_num_envs: 4, max_steps_per_rollout_epoch: 100}
actor: {micro_batch_size: 48, global_batch_size: 96, optim: {lr: 3.0e-3}}
`
	writeFile(t, dir, "native.yaml", components("actor,env,rollout: 0")+task)
	for _, more := range [][]string{{}, {"actor.model.num_action_chunks=4", "actor.global_batch_size=48"}} {
		local.ok(t, dir, 0, append([]string{"-c", "native.yaml", "runner.logger.experiment_name=native"}, more...)...)
		want := readMetrics(t, filepath.Join(dir, "logs", "native"))
		for _, children := range []int{1, 3} {
			local.ok(t, dir, 0,
				append([]string{"-c", "native.yaml", "env.train.env_type=external",
					fmt.Sprint("env.train.external.n=", children),
					fmt.Sprintf("env.train.external.command=[%s,bridge,serve,-c,%s]", program,
						filepath.Join(dir, "native.yaml"))}, more...)...)
			got := readMetrics(t, filepath.Join(dir, "logs", "run"))
			if diff := got.diff(want); diff != "" {
				t.Errorf("%d children, %q: not the metrics of the environments without a bridge:\n%s", children, more,
					diff)
			}
		}
	}
}
