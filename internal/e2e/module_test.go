package e2e

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// small are settings with which configs/cartpole_ppo.yaml takes two short iterations on two ranks.
var small = []string{
	"cluster.component_placement.actor=0-1", "cluster.component_placement.env=0",
	"cluster.component_placement.rollout=1", "env.train.total_num_envs=8",
	"env.eval.total_num_envs=4", "runner.max_steps=2", "runner.val_check_interval=2", "runner.save_interval=-1",
	"actor.micro_batch_size=64",
	"actor.global_batch_size=128", "runner.logger.experiment_name=run",
}

// TestOtherModule builds, in another module, the examples without parts of their own, and trains with each. TestOwnKeys
// tests the other examples.
func TestOtherModule(t *testing.T) {
	t.Parallel()
	top := test.Must(filepath.Abs(root))(t)
	dir := t.TempDir()
	for _, from := range []string{"examples/embodied", "examples/own_runner", "examples/trainer"} {
		test.OK(t, os.CopyFS(filepath.Join(dir, filepath.Base(from)), os.DirFS(filepath.Join(top, from))))
	}
	buildModule(t, dir, dir+"/bin/", "./...")
	run := func(t *testing.T, program string, code int, args ...string) (string, result) {
		t.Helper()
		at := t.TempDir()
		r := local.startProgram(t, filepath.Join(dir, "bin", program), at, 0, args...).result()
		if r.code != code {
			t.Fatalf("%s %q: exit code %d, want %d\n%s%s", program, args, r.code, code, r.stdout, r.stderr)
		}
		return at, r
	}
	t.Run("embodied", func(t *testing.T) {
		args := append([]string{"-c", filepath.Join(top, "configs/cartpole_ppo.yaml")}, small...)
		at, _ := run(t, "embodied", 0, args...)
		base := t.TempDir()
		local.ok(t, base, 0, args...)
		sameRun(t, at, base)
	})
	t.Run("own_runner", func(t *testing.T) {
		at, _ := run(t, "own_runner", 0, "-c", filepath.Join(dir, "own_runner/cartpole.yaml"), "runner.max_steps=2",
			"runner.val_check_interval=2")
		all := readMetrics(t, filepath.Join(at, "logs/own_runner"))
		if len(all) != 2 {
			t.Fatalf("metrics of %d iterations, want 2", len(all))
		}
		for _, name := range []string{"monitor/largest_change", "eval/return", "train/actor/policy_loss"} {
			if _, ok := all[1][name]; !ok {
				t.Errorf("no metric %s in %v", name, all[1])
			}
		}
		_, r := run(t, "own_runner", 2, "-c", filepath.Join(dir, "own_runner/cartpole.yaml"),
			"cluster.component_placement.monitro=0")
		if !strings.Contains(r.stderr, "monitor") {
			t.Errorf("a component that nobody knows: %s", r.stderr)
		}
	})
	t.Run("trainer", func(t *testing.T) {
		for _, args := range [][]string{{"-epochs", "2"}, {"-epochs", "2", "-async"}} {
			// Asynchronous collectors may not have ended an episode by then.
			if _, r := run(t, "trainer", 0, args...); !regexp.MustCompile(
				`^epoch   2  loss +-?\d+\.\d+  return +(\d+\.\d|–)  evaluation +\d+\.\d\n$`).MatchString(r.stdout) {
				t.Errorf("%q: %q", args, r.stdout)
			}
		}
	})
}

// TestEmbodiedUnderMPI: under a launcher, too, the example has the metrics of rlinf.
func TestEmbodiedUnderMPI(t *testing.T) {
	t.Parallel()
	args := append([]string{"-c", "cartpole_ppo.yaml"}, small...)
	text := readFile(t, filepath.Join(root, "configs/cartpole_ppo.yaml"))
	program, dir, base := openmpi.program(t, "./examples/embodied"), t.TempDir(), t.TempDir()
	writeFile(t, dir, "cartpole_ppo.yaml", text)
	writeFile(t, base, "cartpole_ppo.yaml", text)
	if r := openmpi.startProgram(t, program, dir, 2, args...).result(); r.code != 0 {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	local.ok(t, base, 2, args...)
	sameRun(t, dir, base)
}

// sameRun compares the metrics of two runs with the name run, except for those of the clock.
func sameRun(t *testing.T, dir, base string) {
	t.Helper()
	got, want := readMetrics(t, filepath.Join(dir, "logs", "run")), readMetrics(t, filepath.Join(base, "logs", "run"))
	if len(want) != 2 || !reflect.DeepEqual(got, want) {
		t.Errorf("metrics\n%v\nwant those of rlinf\n%v", got, want)
	}
}
