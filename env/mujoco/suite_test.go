//go:build mujoco

package mujoco

import (
	"math"
	"os"
	"reflect"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/envtest"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

func TestSuiteContract(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.MaxEpisodeSteps, cfg.Observations, cfg.Split, cfg.Perturb = 9,
		[]string{"text", "state", "image", "wrist_image", "proprio"}, "execution", perturbShuffled
	envtest.Run(t, func(n int) (env.Vec, error) { return TabletopSuite(cfg, n) }, envtest.Options{})
}

// expertEpisodes returns a number of numbered episodes of cfg, played by the expert.
func expertEpisodes(t *testing.T, cfg env.Config, episodes int) []env.Episode {
	t.Helper()
	v := test.Must(TabletopSuite(cfg, episodes))(t)
	defer v.Close()
	out, seeds, e := v.Spec().NewStep(episodes, 1), env.NewSeeder(cfg, env.Eval, 0, episodes),
		env.NewEpisodes(v.Spec(), 0, episodes, false)
	start(t, v, seeds.Next(), out)
	var act tensor.Dict
	act.Set("action", tensor.New(tensor.F32, episodes, 1, 4))
	var list []env.Episode
	for range v.Spec().MaxSteps {
		test.OK(t, env.Act(v, act.Must("action")))
		test.OK(t, v.Step(act, nil, out))
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

// TestSuiteFiguresOfChunks: an expert's success counts for the same instruction, whatever the number of steps of an
// action and of a chunk. Unless terminations are ignored, success ends the episode, so success once and at the end are
// equal.
func TestSuiteFiguresOfChunks(t *testing.T) {
	const n, steps = 8, 60
	cfg := env.DefaultConfig()
	cfg.Instructions, cfg.MaxEpisodeSteps = env.Mix{"reach_cube": 1, "reach_ball": 1, "push_left": 1}, steps
	for _, ignore := range []bool{true, false} {
		cfg.IgnoreTerminations = ignore
		for _, times := range []int{1, 3} {
			play := func(chunk int, action func(v env.Vec, at int, a []float32)) []env.Episode {
				return playSuite(t, cfg, n, times, chunk, action)
			}
			acts := make([][]float32, steps/times) // [n,4] each
			want := play(1, func(v env.Vec, at int, a []float32) {
				test.OK(t, env.Act(v, tensor.FromF32(a, n, 1, 4)))
				acts[at] = slices.Clone(a)
			})
			sum := env.Summarize(want)
			if len(want) != n || sum.SuccessOnce < 0.2 || len(sum.ByTask) < 2 ||
				!ignore && sum.SuccessOnce != sum.SuccessAtEnd {
				t.Errorf("ignore_terminations %v, each action %d times: %+v", ignore, times, sum)
			}
			for _, chunk := range []int{2, 3, 10} {
				got := play(chunk, func(_ env.Vec, at int, a []float32) {
					for i := range n * chunk {
						copy(a[4*i:4*i+4], acts[min(at+i%chunk, len(acts)-1)][i/chunk*4:])
					}
				})
				for i, g := range got {
					w := want[i]
					if w.Return = g.Return; !reflect.DeepEqual(g, w) || math.Abs(g.Return-want[i].Return) > 1e-5 {
						t.Errorf("ignore_terminations %v, each action %d times, chunks of %d: %+v, want %+v", ignore,
							times, chunk, g, want[i])
					}
				}
			}
		}
	}
}

// playSuite plays an episode in each of n environments, which take each action a number of times. action sets a chunk
// of actions.
func playSuite(t *testing.T, cfg env.Config, n, times, chunk int,
	action func(v env.Vec, at int, a []float32)) []env.Episode {
	t.Helper()
	inside := test.Must(TabletopSuite(cfg, n))(t)
	var v env.Vec = inside
	if times > 1 {
		v = env.NewActionRepeat(v, times)
	}
	defer v.Close()
	out, seeds, e := v.Spec().NewStep(n, chunk), env.NewSeeder(cfg, env.Eval, 0, n),
		env.NewEpisodes(v.Spec(), 0, n, false)
	start(t, v, seeds.Next(), out)
	var act tensor.Dict
	act.Set("action", tensor.New(tensor.F32, n, chunk, 4))
	for at := 0; at < cfg.MaxEpisodeSteps/times; at += chunk {
		action(v, at, act.Must("action").F32())
		test.OK(t, v.Step(act, nil, out))
		e.Observe(out)
	}
	all := slices.Clone(e.Take())
	slices.SortFunc(all, func(a, b env.Episode) int { return a.Env - b.Env })
	return all
}

// TestSuiteNumbered: episode k has the same initial state among all environments and in a shard, after earlier
// episodes, after a resume of the seeds, and with another perturbation.
func TestSuiteNumbered(t *testing.T) {
	const n = 8
	observe := func(split, perturb string, first, n int) []float32 {
		cfg := suiteConfig(split, perturb)
		v := test.Must(TabletopSuite(cfg, n))(t)
		defer v.Close()
		seeds := env.NewSeeder(cfg, env.Eval, first, n)
		seeds.Started(nil) // an earlier evaluation
		saved := test.Must(seeds.Save())(t)
		test.OK(t, seeds.Load(saved))
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
