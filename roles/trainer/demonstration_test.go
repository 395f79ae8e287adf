package trainer

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/tensor"
)

// TestDemonstration reads a written file. It has successes alone, one after the other. The observation after the last
// step is that at the end of the episode.
func TestDemonstration(t *testing.T) {
	cfg := rolestest.EnvConfig("walker", 4)
	cfg.RewardCoef = 0.5 // a wrapper, which passes the expert on
	d := Demonstration{Episodes: 6}
	test.OK(t, d.Play(rolestest.Walkers(), cfg))
	path := filepath.Join(t.TempDir(), "demos.safetensors")
	test.OK(t, d.Write(path))
	file, err := os.ReadFile(path)
	test.OK(t, err)
	got, about, err := tensor.ReadSafetensors(file)
	test.OK(t, err)
	opened, err := algo.OpenDemos(path)
	test.OK(t, err)
	test.OK(t, opened.Close())
	// Returns are those of the task, which the wrapper does not halve.
	if episodes := slices.Repeat([]algo.DemoEpisode{{Len: 3, Return: 6, Success: true}}, 6); !opened.HasSuccess ||
		!slices.Equal(opened.Episodes, episodes) {
		t.Errorf("episodes %v, want %v", opened.Episodes, episodes)
	}
	if about["env"] != "walker" || about["episodes"] != "6" || d.Succeeded != 6 || d.Played <= 6 {
		t.Errorf("%v, %d of %d", about, d.Succeeded, d.Played)
	}
	want := map[string][]float32{
		"observation.state": {0, 1, 2}, "next_observation.state": {1, 2, 3}, "action": {1, 1, 1},
		"reward": {0.5, 1, 1.5},
	}
	for name, episode := range want {
		if x := got.Must(name).F32(); !slices.Equal(x, slices.Repeat(episode, 6)) {
			t.Errorf("%s: %v, want %v six times", name, x, episode)
		}
	}
	test.EqualSlices(t, got.Must("terminated").U8(), slices.Repeat([]byte{0, 0, 1}, 6), "terminated")
	if x := got.Must("truncated").U8(); slices.Max(x) != 0 {
		t.Errorf("truncated: %v", x)
	}
	for name, shape := range map[string][]int{"action": {18, 1, 1}, "observation.state": {18, 1}, "reward": {18},
		"truncated": {18}} {
		test.EqualSlices(t, got.Must(name).Shape(), shape, "%s: shape", name)
	}

	d = Demonstration{Episodes: 6, All: true}
	if err := d.Play(rolestest.Walkers(), cfg); err != nil || d.Played != 6 || d.Succeeded == 6 ||
		len(d.Kept) != 4*6-d.Succeeded {
		t.Errorf("all: %d of %d episodes, %d transitions: %v", d.Succeeded, d.Played, len(d.Kept), err)
	}
}

// TestDemonstrationsDiffer: each demonstration begins in a state of its own, also if training has groups.
func TestDemonstrationsDiffer(t *testing.T) {
	cfg := rolestest.EnvConfig("Pendulum-v1", 4)
	cfg.GroupSize = 4
	d := Demonstration{Episodes: 8, All: true}
	got, seen := written(t, &d, all.Registry(), cfg), map[float32]bool{}
	for t, x := range got.Must("observation.state").F32() {
		if t%(200*3) == 0 { // the first number of an episode's first observation
			seen[x] = true
		}
	}
	if len(seen) != 8 {
		t.Errorf("8 demonstrations from %d initial states", len(seen))
	}
}

// An episode of repeated actions is a success if one of the repetitions was: walkers that go past 3 have reached 3.
func TestDemonstrationRepeats(t *testing.T) {
	cfg := rolestest.EnvConfig("walker", 4)
	cfg.IgnoreTerminations = true
	for _, cfg.ActionRepeat = range []int{1, 2, 4} {
		d := Demonstration{Episodes: 6, All: true}
		if err := d.Play(rolestest.Walkers(), cfg); err != nil || d.Played != 6 || d.Succeeded != 3 {
			t.Errorf("each action %d times: %d of %d episodes, want 3 of 6: %v", cfg.ActionRepeat, d.Succeeded,
				d.Played, err)
		}
	}
}

// written plays d and returns the transitions that it writes.
func written(t testing.TB, d *Demonstration, envs *env.Registry, cfg env.Config) tensor.Dict {
	t.Helper()
	test.OK(t, d.Play(envs, cfg))
	path := filepath.Join(t.TempDir(), "demos.safetensors")
	test.OK(t, d.Write(path))
	file, err := os.ReadFile(path)
	test.OK(t, err)
	got, _, err := tensor.ReadSafetensors(file)
	test.OK(t, err)
	var transitions tensor.Dict
	for i := range got.Len() {
		if name, x := got.Entry(i); !strings.HasPrefix(name, "episode.") {
			transitions.Set(name, x)
		}
	}
	return transitions
}

// TestDemonstrationNoise: the written actions have the noise, stay within their bounds, and follow from the seed.
func TestDemonstrationNoise(t *testing.T) {
	var actions [3][]float32
	for i, seed := range []uint64{1, 1, 2} {
		d := Demonstration{Episodes: 50, All: true, Noise: 1, Seed: seed}
		file := written(t, &d, rolestest.Walkers(), rolestest.EnvConfig("walker", 7))
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

// Clean actions are those of the expert, whole numbers, although the noise moves the walker. Without next observations
// the file does not show where to.
func TestDemonstrationClean(t *testing.T) {
	d := Demonstration{Episodes: 20, All: true, Noise: 0.5, Seed: 1, Clean: true, NoNext: true}
	file := written(t, &d, rolestest.Walkers(), rolestest.EnvConfig("walker", 3))
	noisy := func(v float32) bool { return v != float32(int(v)) }
	if a := file.Must("action").F32(); slices.ContainsFunc(a, noisy) {
		t.Errorf("actions %v: want whole numbers", a)
	}
	if x := file.Must("observation.state").F32(); !slices.ContainsFunc(x, noisy) {
		t.Errorf("states %v: want some that noise has led to", x)
	}
	if _, ok := file.Get("next_observation.state"); ok {
		t.Error("there are next observations")
	}
}

func TestDemonstrationErrors(t *testing.T) {
	d := Demonstration{Episodes: 1}
	if err := d.Play(all.Registry(), rolestest.EnvConfig("CartPole-v1", 2)); !errors.As(err, new(config.UsageError)) ||
		!strings.Contains(err.Error(), "CartPole-v1 has no expert: expected ") {
		t.Errorf("without an expert: %v", err)
	}
	d = Demonstration{Episodes: 1, Noise: 1}
	if err := d.Play(rolestest.Walkers(), rolestest.EnvConfig("walker", 2)); err == nil ||
		!strings.Contains(err.Error(), "--noise") {
		t.Errorf("an expert that fails: %v", err)
	}
}

// TestShares: demonstrations are divided by weight, and add up.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		weights []float64
		n       int
		want    []int
	}{
		{nil, 7, []int{7}}, {[]float64{1, 1, 1}, 7, []int{3, 2, 2}}, {[]float64{0, 2, 1}, 6, []int{0, 4, 2}},
		{[]float64{0, 1, 0, 1}, 1, []int{0, 1, 0, 0}},
	} {
		test.EqualSlices(t, shares(c.weights, c.n), c.want, "%d by %v", c.n, c.weights)
	}
}

// TestStill: an action moves nothing if all numbers but the last are small, and the last has not changed.
func TestStill(t *testing.T) {
	d := Demonstration{Still: 0.1, last: tensor.FromF32([]float32{1, 1, -1}, 1, 1, 3)}
	d.Spec.Action.Shape = []int{3}
	for _, c := range []struct {
		action []float32
		want   bool
	}{{[]float32{0.05, -0.05, -1}, true}, {[]float32{0.05, -0.05, 1}, false}, {[]float32{1, 1, -1}, false},
		{[]float32{0, -0.2, -1}, false}} {
		if got := d.idle(tensor.FromF32(c.action, 1, 1, 3), 0); got != c.want {
			t.Errorf("%v after %v: %v, want %v", c.action, d.last.F32(), got, c.want)
		}
	}
	if d.Still = 0; d.idle(tensor.New(tensor.F32, 1, 1, 3), 0) {
		t.Error("without --still a step is left out")
	}
}
