package e2e

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
)

// An example is a folder in examples, whose script builds a solver and trains on it.
type example struct {
	folder, solver, run string
	metric              string
	few, many           target // many with RLINF_TEST_FULL=1
	variables           []string
}

// A target is what the return must reach after a number of steps of the runner, as a multiple of the return without
// control, which is a cost. With the few steps, three to five seeds reach at most 0.07 (burgers) and 0.84
// (kuramoto-sivashinsky). Runs that learn nothing, with a learning rate of 1e-12, stay at 0.88 and 0.97 or above.
type target struct {
	steps int
	part  float64
}

func TestExamples(t *testing.T) {
	t.Parallel()
	for _, x := range []example{
		{"burgers", "burgers", "burgers", "eval/return", target{10, 0.2}, target{60, 0.1}, nil},
		{"kuramoto-sivashinsky", "ks", "kuramoto_sivashinsky", "eval/return", target{25, 0.92}, target{100, 0.6}, nil},
	} {
		t.Run(x.folder, func(t *testing.T) {
			if _, err := exec.LookPath("gfortran"); err != nil && x.solver == "burgers" {
				t.Skip("no gfortran: scripts/setup test installs it")
			}
			if _, err := exec.LookPath("cc"); err != nil {
				t.Skip("no cc: scripts/setup test installs it")
			}
			steps := x.target().steps
			run := x.train(t, local, fmt.Sprint("runner.val_check_interval=", steps),
				fmt.Sprint("runner.save_interval=", steps))
			if x.solver == "burgers" {
				x.steer(t, run)
			}
		})
	}
}

// TestExamplesOnMPI trains for a few steps on a solver of several processes in the same MPI job, with Open MPI and
// MPICH. With more processes than cores a step waits for the scheduler, so only a full run trains until something is
// learned.
func TestExamplesOnMPI(t *testing.T) {
	t.Parallel()
	x := example{"heat", "heat", "heat", "env/return", target{}, target{50, 0.15}, nil}
	moment := []string{steps(2), "env.train.max_steps_per_rollout_epoch=128"}
	var want metrics
	for _, p := range []*platform{openmpi, mpich} {
		t.Run(p.name, func(t *testing.T) {
			p.program(t, ".") // or skip the test
			launcher := test.Must(p.launcher())(t)
			x.variables = []string{"MPIRUN=" + strings.Join(append([]string{launcher}, p.flags...), " "),
				"MPICC=" + first("mpicc."+p.name, "mpicc"), "NP=2"}
			if p == openmpi {
				if full {
					x.train(t, p)
				}
				logs := t.TempDir()
				want = x.playIn(t, p, logs, append(moment, "runner.save_interval=2")...)
				x.steerOnMPI(t, p, logs)
			} else if diff := x.play(t, p, moment...).diff(want); want != nil && diff != "" {
				t.Errorf("not the metrics of Open MPI:\n%s", diff)
			}
		})
	}
}

func (x example) target() target {
	if full {
		return x.many
	}
	return x.few
}

// train runs the example's script, and compares the learnt control with the solver's result without control. It returns
// the folder of the run.
func (x example) train(t *testing.T, p *platform, args ...string) (run string) {
	t.Helper()
	want := x.target()
	run = filepath.Join(t.TempDir(), x.run)
	m := x.playIn(t, p, filepath.Dir(run), append(args, steps(want.steps))...)
	out, err := exec.Command(filepath.Join(root, "examples", x.folder, x.solver), "none").Output()
	_, text, _ := strings.Cut(string(out), "mean return ")
	none, bad := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || bad != nil || none >= 0 {
		t.Fatalf("%s none: %v\n%s", x.solver, err, out)
	}
	got, err := strconv.ParseFloat(fmt.Sprint(m[len(m)-1][x.metric]), 64)
	if err != nil || got < want.part*none {
		t.Errorf("%s is %v: want at least %g of %g", x.metric, m[len(m)-1][x.metric], want.part, none)
	}
	return run
}

// steer exports the policy of a run. The solver of Burgers' equation plays it without rlinf, with the return that rlinf
// has evaluated at the end of the run.
func (x example) steer(t *testing.T, run string) {
	t.Helper()
	dir := x.export(t, run)
	source := test.Must(filepath.Abs(filepath.Join(root, "examples/burgers/burgers.f90")))(t)
	output(t, dir, "cc", "-O2", "-c", "policy.c")
	output(t, dir, "gfortran", "-O2", "-cpp", "-DPOLICY", "policy.f90", source, "policy.o", "-lm", "-o", "steered")
	seeds := []string{"policy.bin"}
	for _, seed := range evalSeeds(20).Next() {
		seeds = append(seeds, fmt.Sprint(int64(seed)))
	}
	m := readMetrics(t, run)
	sameReturn(t, output(t, dir, "./steered", seeds...), m[len(m)-1]["eval/return"])
}

// steerOnMPI evaluates the policy of the run in logs. Then the processes of the hot plate play it without rlinf, with
// the same return.
func (x example) steerOnMPI(t *testing.T, p *platform, logs string) {
	t.Helper()
	const episodes = 2
	text := x.script(t, p, logs, "runner.only_eval=true", fmt.Sprint("env.eval.rollout_epoch=", episodes))
	_, text, _ = strings.Cut(text, "eval/return ")
	want, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	dir := x.export(t, filepath.Join(logs, x.run))
	source := test.Must(filepath.Abs(filepath.Join(root, "examples/heat/heat.c")))(t)
	output(t, dir, first("mpicc."+p.name, "mpicc"), "-std=c99", "-O2", "-DPOLICY", "-I.", "-o", "steered", source,
		"policy.c", "-lm")
	seeder, args := evalSeeds(1), append(slices.Clone(p.flags), "-np", "4", "./steered", "policy.bin")
	for range episodes {
		args = append(args, fmt.Sprint(seeder.Next()[0]))
		seeder.Started(nil)
	}
	sameReturn(t, output(t, dir, test.Must(p.launcher())(t), args...), want)
}

// export exports the policy of a run as C, and returns the folder.
func (x example) export(t *testing.T, run string) (dir string) {
	t.Helper()
	dir = filepath.Join(run, "exported")
	if r := local.run(t, run, 0, "export", run, "--format", "c", "--out", dir); r.code != 0 {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	return dir
}

// evalSeeds returns the seeds of evaluations of the examples, in n environments.
func evalSeeds(n int) *env.Seeder {
	cfg := env.DefaultConfig()
	cfg.Seed = 1
	return env.NewSeeder(cfg, env.Eval, 0, n)
}

// output runs a program in a folder, and returns its output.
func output(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// sameReturn compares the mean return that a solver has printed with the return in metrics.
func sameReturn(t *testing.T, printed string, evaluated any) {
	t.Helper()
	_, text, _ := strings.Cut(printed, "mean return ")
	got, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	want, bad := strconv.ParseFloat(fmt.Sprint(evaluated), 64)
	if err != nil || bad != nil || math.Abs(got-want) > 1e-3*math.Abs(want) {
		t.Errorf("without rlinf the return is %s, with rlinf %v", text, want)
	}
}

// play runs the example's script, and returns its metrics.
func (x example) play(t *testing.T, p *platform, args ...string) metrics {
	t.Helper()
	return x.playIn(t, p, t.TempDir(), append(args, "runner.save_interval=-1")...)
}

// playIn is play with a folder for the run.
func (x example) playIn(t *testing.T, p *platform, logs string, args ...string) metrics {
	t.Helper()
	x.script(t, p, logs, args...)
	return readMetrics(t, filepath.Join(logs, x.run))
}

// script runs the example's script, and returns its standard output. The run is in the folder logs.
func (x example) script(t *testing.T, p *platform, logs string, args ...string) string {
	t.Helper()
	script := test.Must(filepath.Abs(filepath.Join(root, "examples", x.folder, "run")))(t)
	variables := append([]string{"env", "RLINF=" + p.program(t, ".")}, x.variables...)
	r := local.startBelow(t, variables, script, logs, 0, append(args, "runner.logger.log_path="+logs)...).result()
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	return r.stdout
}
