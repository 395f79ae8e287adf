//go:build mujoco

package mujoco

import (
	"os"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/envtest"
	"github.com/rlinf/rlinf/tensor"
)

func TestSuiteContract(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.MaxEpisodeSteps, cfg.Observations, cfg.Split, cfg.Perturb = 9, []string{"text", "state", "image", "wrist_image", "proprio"}, "execution", perturbShuffled
	envtest.Run(t, func(n int) (env.Vec, error) { return TabletopSuite(cfg, n) }, envtest.Options{})
}

// expertEpisodes returns so many numbered episodes of cfg, played by the expert.
func expertEpisodes(t *testing.T, cfg env.Config, episodes int) []env.Episode {
	t.Helper()
	v, err := TabletopSuite(cfg, episodes)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	out, seeds, e := v.Spec().NewStep(episodes, 1), env.NewSeeder(cfg, env.Eval, 0, episodes), env.NewEpisodes(v.Spec(), 0, episodes, false)
	start(t, v, seeds.Next(), out)
	var act tensor.Dict
	act.Set("action", tensor.New(tensor.F32, episodes, 1, 4))
	var list []env.Episode
	for range v.Spec().MaxSteps {
		if err := env.Act(v, act.Must("action")); err != nil {
			t.Fatal(err)
		}
		if err := v.Step(act, nil, out); err != nil {
			t.Fatal(err)
		}
		e.Observe(out)
	}
	return append(list, e.Take()...)
}

// TestSuiteExperts: each instruction's expert succeeds in at least 97 of 100 numbered episodes.
func TestSuiteExperts(t *testing.T) {
	episodes, least := 24, 0.9
	if os.Getenv("RLINF_TEST_FULL") != "" {
		episodes, least = 300, 0.97
	}
	for _, o := range instructions() {
		cfg := env.DefaultConfig()
		cfg.Instructions = env.Mix{o.name: 1}
		sum := env.Summarize(expertEpisodes(t, cfg, episodes))
		if sum.NumTrajectories != episodes || sum.SuccessOnce < least {
			t.Errorf("%s: success in %.3f of %d episodes, want %v", o.name, sum.SuccessOnce, sum.NumTrajectories, least)
		}
		t.Logf("%s: %.3f success, %.3f wrong, %.1f steps", o.name, sum.SuccessOnce, sum.WrongObject, sum.EpisodeLen)
	}
}

// TestSuiteNumbered: episode k begins alike wherever it is played: among all or in a shard, after earlier episodes or after a resume of the seeds, with
// another perturbation.
func TestSuiteNumbered(t *testing.T) {
	const n = 8
	observe := func(split, perturb string, first, n int) []float32 {
		cfg := suiteConfig(split, perturb)
		v, err := TabletopSuite(cfg, n)
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		seeds := env.NewSeeder(cfg, env.Eval, first, n)
		seeds.Started(nil) // an earlier evaluation
		saved, err := seeds.Save()
		if err != nil {
			t.Fatal(err)
		}
		if err := seeds.Load(saved); err != nil {
			t.Fatal(err)
		}
		seeds.Rewind()
		out := v.Spec().NewStep(n, 1)
		start(t, v, seeds.Next(), out)
		return out.Obs.Must("state").F32()
	}
	for _, split := range []string{"seen", "new_role", "execution"} {
		all := observe(split, "", 0, n)
		row := len(all) / n
		for first := 0; first < n; first += 3 {
			m := min(3, n-first)
			if got := observe(split, "black_image", first, m); !slices.Equal(got, all[first*row:(first+m)*row]) {
				t.Errorf("%s: episodes %d to %d differ when they are played apart", split, first, first+m-1)
			}
		}
	}
}
