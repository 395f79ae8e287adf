package roles

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/tensor"
)

// A walker goes from 0 to 3; its seed says how fast its expert is, and a fast one misses.
type walker struct{ at, speed []float32 }

func (w *walker) Spec() env.Spec {
	one := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{-2}, High: []float32{2}}
	return env.Spec{Name: "walker", Obs: []env.Field{{Name: "state", Space: one}}, Action: one, MaxSteps: 4, Info: []string{"success"}}
}
func (w *walker) Len() int { return len(w.at) }
func (w *walker) Reset(n int, seed uint64) error {
	w.at[n], w.speed[n] = 0, float32(1+seed%2)
	return nil
}
func (w *walker) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte, info []float32) error {
	for n, a := range action.F32() {
		if turn[n] != env.Idle {
			w.at[n] += a
			info[n] = 0
			if w.at[n] == 3 {
				info[n] = 1
			}
			reward[n], terminated[n] = w.at[n], byte(info[n])
		}
	}
	return nil
}
func (w *walker) Observe(mask []bool, obs tensor.Dict) {
	for n, x := range w.at {
		if mask == nil || mask[n] {
			obs.Must("state").F32()[n] = x
		}
	}
}
func (w *walker) Act(action tensor.Tensor) error {
	copy(action.F32(), w.speed)
	return nil
}
func (w *walker) Close() error { return nil }

func walkers() *env.Registry {
	r := all.Registry()
	r.Add("walker", func(cfg env.Config, n int) (env.Vec, error) {
		return env.NewEpisodic(&walker{make([]float32, n), make([]float32, n)}, cfg), nil
	})
	return r
}

// TestDemonstration reads what was written: successes alone, one after another, the observation after the last step that of the episode's end.
func TestDemonstration(t *testing.T) {
	cfg := envConfig("walker", 4)
	cfg.RewardCoef = 0.5 // a wrapper, which passes the expert on
	d := demonstration{episodes: 6}
	if err := d.play(walkers(), cfg); err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := d.write(&file); err != nil {
		t.Fatal(err)
	}
	got, about, err := tensor.ReadSafetensors(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if about["env"] != "walker" || about["episodes"] != "6" || d.succeeded != 6 || d.played <= 6 {
		t.Errorf("%v, %d of %d", about, d.succeeded, d.played)
	}
	want := map[string][]float32{
		"observation.state": {0, 1, 2}, "next_observation.state": {1, 2, 3}, "action": {1, 1, 1}, "reward": {0.5, 1, 1.5},
	}
	for name, episode := range want {
		if x := got.Must(name).F32(); !slices.Equal(x, slices.Repeat(episode, 6)) {
			t.Errorf("%s: %v, want %v six times", name, x, episode)
		}
	}
	if x := got.Must("terminated").U8(); !slices.Equal(x, slices.Repeat([]byte{0, 0, 1}, 6)) {
		t.Errorf("terminated: %v", x)
	}
	if x := got.Must("truncated").U8(); slices.Max(x) != 0 {
		t.Errorf("truncated: %v", x)
	}
	for name, shape := range map[string][]int{"action": {18, 1, 1}, "observation.state": {18, 1}, "reward": {18}, "truncated": {18}} {
		if got := got.Must(name).Shape(); !slices.Equal(got, shape) {
			t.Errorf("%s: shape %v, want %v", name, got, shape)
		}
	}

	d = demonstration{episodes: 6, all: true}
	if err := d.play(walkers(), cfg); err != nil || d.played != 6 || d.succeeded == 6 || len(d.kept) != 4*6-d.succeeded {
		t.Errorf("all: %d of %d episodes, %d transitions: %v", d.succeeded, d.played, len(d.kept), err)
	}
}

// TestDemonstrationNoise: it is in the actions that are written, within their bounds, and follows from the seed.
func TestDemonstrationNoise(t *testing.T) {
	var actions [3][]float32
	for i, seed := range []uint64{1, 1, 2} {
		d := demonstration{episodes: 50, all: true, noise: 1, seed: seed}
		if err := d.play(walkers(), envConfig("walker", 7)); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := d.write(&out); err != nil {
			t.Fatal(err)
		}
		file, _, err := tensor.ReadSafetensors(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		actions[i] = file.Must("action").F32()
		before, after := file.Must("observation.state").F32(), file.Must("next_observation.state").F32()
		for k, a := range actions[i] {
			if before[k]+a != after[k] {
				t.Fatalf("transition %d: %v + %v gave %v", k, before[k], a, after[k])
			}
		}
	}
	if !slices.Equal(actions[0], actions[1]) || slices.Equal(actions[0], actions[2]) {
		t.Error("noise does not follow from the seed")
	}
	if most, least := slices.Max(actions[0]), slices.Min(actions[0]); most != 2 || least < -2 || least > 0 {
		t.Errorf("noisy actions from %v to %v", least, most)
	}
}

func TestDemonstrationErrors(t *testing.T) {
	d := demonstration{episodes: 1}
	if err := d.play(all.Registry(), envConfig("CartPole-v1", 2)); !errors.Is(err, errors.ErrUnsupported) || !errors.As(err, new(UsageError)) {
		t.Errorf("without an expert: %v", err)
	}
	d = demonstration{episodes: 1, noise: 1}
	if err := d.play(walkers(), envConfig("walker", 2)); err == nil || !strings.Contains(err.Error(), "--noise") {
		t.Errorf("an expert that fails: %v", err)
	}
}

// TestDemos runs the command from end to end.
func TestDemos(t *testing.T) {
	out := filepath.Join(t.TempDir(), "demos.safetensors")
	args := strings.Fields("rlinf demos -c ../configs/cartpole_ppo.yaml --episodes 6 --out " + out)
	reg := Registries{Envs: walkers(), Policies: policy.Builtin(), Algorithms: algo.Builtin(), Rewards: reward.Builtin()}
	if code := Main(append(args, "env.train.env_type=walker"), reg); code != ExitOK {
		t.Errorf("exit code %d", code)
	}
	file, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if d, _, err := tensor.ReadSafetensors(file); err != nil || d.Must("action").Dim(0) != 18 {
		t.Errorf("read: %v, %v", d, err)
	}
	for args, want := range map[string]string{
		"demos -c ../configs/cartpole_ppo.yaml":                                       "expert of CartPole-v1: unsupported operation: want environments that have one",
		"demos -c ../configs/cartpole_ppo.yaml --episodes 0":                          "--episodes 0",
		"demos -c ../configs/cartpole_ppo.yaml --noise -1":                            "--noise -1",
		"demos -c ../configs/pendulum_sac.yaml --episodes 100000000 --out /nowhere/x": "--out /nowhere/x: want a file in a folder that can be written: write in /nowhere: no such",
		"render -c ../configs/cartpole_ppo.yaml --out /nowhere/x":                     "--out /nowhere/x: want a file in a folder that can be written: write in /nowhere: no such",
	} {
		code, _, stderr := run(t, strings.Fields(args)...)
		if code != ExitConfig || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %q, want %d and %q", args, code, stderr, ExitConfig, want)
		}
	}
}
