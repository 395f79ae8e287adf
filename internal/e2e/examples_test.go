package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// An example is a folder of examples, whose script builds a solver and trains on it.
type example struct {
	folder, solver, run string
	metric              string
	few, many           target // many with RLINF_TEST_FULL=1
}

// A target is what a return has to come to after so many steps of the runner: at least so many times the return without control, a cost.
type target struct {
	steps int
	part  float64
}

func TestExamples(t *testing.T) {
	for _, x := range []example{
		{"burgers", "burgers", "burgers", "eval/return", target{10, 0.5}, target{60, 0.1}},
		{"kuramoto-sivashinsky", "ks", "kuramoto_sivashinsky", "eval/return", target{2, 1.1}, target{100, 0.6}},
	} {
		t.Run(x.folder, func(t *testing.T) {
			if _, err := exec.LookPath("gfortran"); err != nil && x.solver == "burgers" {
				t.Skip("no gfortran: scripts/setup test installs it")
			}
			if _, err := exec.LookPath("cc"); err != nil {
				t.Skip("no cc: scripts/setup test installs it")
			}
			x.train(t, local, fmt.Sprint("runner.val_check_interval=", x.target().steps))
		})
	}
}

// TestExamplesOnMPI trains on a solver of many processes in the same MPI job.
func TestExamplesOnMPI(t *testing.T) {
	for _, p := range []*platform{openmpi, mpich} {
		t.Run(p.name, func(t *testing.T) {
			p.program(t, ".") // or skip
			launcher, err := p.launcher()
			if err != nil {
				t.Fatal(err)
			}
			t.Setenv("MPIRUN", strings.Join(append([]string{launcher}, p.flags...), " "))
			t.Setenv("MPICC", "mpicc."+p.name)
			if _, err := exec.LookPath("mpicc." + p.name); err != nil {
				t.Setenv("MPICC", "mpicc")
			}
			t.Setenv("NP", "2") // processes that wait for each other wait for the scheduler, where there are more than cores
			x := example{"heat", "heat", "heat", "env/return", target{2, 1.1}, target{25, 0.4}}
			if p == mpich { // the more so
				x.many = x.few
			}
			var args []string
			if x.target() == x.few {
				args = append(args, "env.train.max_steps_per_rollout_epoch=128")
			}
			x.train(t, p, args...)
		})
	}
}

func (x example) target() target {
	if full {
		return x.many
	}
	return x.few
}

// train runs the example's script, and compares what has been learned with what the solver says of no control.
func (x example) train(t *testing.T, p *platform, args ...string) {
	t.Helper()
	t.Setenv("RLINF", p.program(t, "."))
	folder, err := filepath.Abs(filepath.Join(root, "examples", x.folder))
	if err != nil {
		t.Fatal(err)
	}
	want, logs := x.target(), t.TempDir()
	args = append(args, "runner.logger.log_path="+logs, "runner.save_interval=-1", fmt.Sprint("runner.max_steps=", want.steps))
	r := local.startProgram(t, filepath.Join(folder, "run"), logs, 0, args...).result()
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}

	out, err := exec.Command(filepath.Join(folder, x.solver), "none").Output()
	_, text, _ := strings.Cut(string(out), "mean return ")
	none, bad := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || bad != nil || none >= 0 {
		t.Fatalf("%s none: %v\n%s", x.solver, err, out)
	}
	m := readMetrics(t, filepath.Join(logs, x.run))
	got, err := strconv.ParseFloat(fmt.Sprint(m[len(m)-1][x.metric]), 64)
	if err != nil || got < want.part*none {
		t.Errorf("%s is %v: want at least %g of %g\n%s", x.metric, m[len(m)-1][x.metric], want.part, none, r.stdout)
	}
}
