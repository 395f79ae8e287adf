package e2e

import (
	"math"
	"path/filepath"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// TestPythonExpert: the expert of a simulator in Python gives demonstrations and teaches by DAgger. Then the trained
// policy is recorded, and a third policy clones the recording.
func TestPythonExpert(t *testing.T) {
	t.Parallel()
	program, err := filepath.Abs(filepath.Join("testdata", "pendulum.py"))
	test.OK(t, err)
	simulator := []string{"env.train.env_type=external", "env.train.external.command=" + python(t) + " " + program}
	dir, configs := t.TempDir(), filepath.Join(root, "configs")
	configs, err = filepath.Abs(configs)
	test.OK(t, err)
	dagger := []string{"-c", filepath.Join(configs, "pendulum_dagger.yaml")}
	local.ok(t, dir, 0, append(append([]string{"demos", "--episodes", "8", "--all"}, dagger...), simulator...)...)
	all, _, err := tensor.ReadSafetensors([]byte(readFile(t, filepath.Join(dir, "demos.safetensors"))))
	test.OK(t, err)
	seen, action := all.Must("observation.state").F32(), all.Must("action").F32()
	for i, a := range action {
		if want := swingUp(seen[3*i:]); math.Abs(float64(a)-want) > 1e-4 {
			t.Fatalf("transition %d: the expert does %v after %v, want %v", i, a, seen[3*i:3*i+3], want)
		}
	}
	if len(action) != 8*200 {
		t.Errorf("%d transitions", len(action))
	}

	local.ok(t, dir, 0, append(append(dagger, simulator...), "env.eval.total_num_envs=20",
		"runner.max_steps=10", "runner.val_check_interval=10")...)
	run := filepath.Join(dir, "logs", "pendulum_dagger")
	if got := lastEval(t, run); got < -250 {
		t.Errorf("DAgger: eval/return %v, want about -150", got)
	}
	local.ok(t, dir, 0, "eval", "-c", filepath.Join(run, "config.yaml"), "--episodes", "50",
		"--record", "played.safetensors")
	local.ok(t, dir, 0, "-c", filepath.Join(configs, "pendulum_bc.yaml"), "env.eval.total_num_envs=20",
		"runner.max_steps=25", "runner.val_check_interval=25",
		"algorithm.demo_buffer.load_path=played.safetensors")
	if got := lastEval(t, filepath.Join(dir, "logs", "pendulum_bc")); got < -250 {
		t.Errorf("a clone of the recorded policy: eval/return %v, want about -150", got)
	}
}

// swingUp is the expert of env/classic, which sees the cosine and the sine of the angle and the velocity.
func swingUp(seen []float32) float64 {
	angle, speed := math.Atan2(float64(seen[1]), float64(seen[0])), float64(seen[2])
	if seen[0] > 0.9 && math.Abs(speed) < 3 {
		return max(-2, min(2, -10*angle-2.5*speed))
	}
	return math.Copysign(2, speed*(5.2-speed*speed/6-5*float64(seen[0])))
}
