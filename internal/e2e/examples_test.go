package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

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
			x.train(t, local, fmt.Sprint("runner.val_check_interval=", x.target().steps))
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
				want = x.play(t, p, moment...)
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

// train runs the example's script, and compares the learnt control with the solver's result without control.
func (x example) train(t *testing.T, p *platform, args ...string) {
	t.Helper()
	want := x.target()
	m := x.play(t, p, append(args, steps(want.steps))...)
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
}

// play runs the example's script, and returns its metrics.
func (x example) play(t *testing.T, p *platform, args ...string) metrics {
	t.Helper()
	script := test.Must(filepath.Abs(filepath.Join(root, "examples", x.folder, "run")))(t)
	logs := t.TempDir()
	variables := append([]string{"env", "RLINF=" + p.program(t, ".")}, x.variables...)
	r := local.startBelow(t, variables, script, logs, 0,
		append(args, "runner.logger.log_path="+logs, "runner.save_interval=-1")...).result()
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	return readMetrics(t, filepath.Join(logs, x.run))
}
