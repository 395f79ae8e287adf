//go:build !race

// The race detector makes arithmetic ten times as slow, and all goroutines of these tests run in others.

package trainer

import (
	"path/filepath"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/envtest/squares"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/vla"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/tensor"
)

// squaresPolicy is a small vision-language-action policy for squares, and what it is trained with: environments, and a
// setup without an algorithm.
func squaresPolicy(t *testing.T, envs int, change func(*policy.Config, *vla.Config)) (*env.Registry, env.Config,
	algo.Setup) {
	t.Helper()
	reg := env.NewRegistry()
	reg.Add("Squares-v0", squares.New)
	cfg, own := policy.DefaultConfig(), vla.Defaults()
	cfg.ModelType, cfg.NumActionChunks, cfg.LogProbType, cfg.HiddenSizes = "vla_policy", 2, "token_level", []int{32}
	own.HiddenSize, own.Intermediate, own.NumLayers, own.NumHeads, own.ActionBins, own.VisionWidth = 32, 64, 2, 2, 9, 16
	if change != nil {
		change(&cfg, &own)
	}
	envCfg := rolestest.EnvConfig("Squares-v0", envs)
	vec := test.Must(reg.New(envCfg, 1))(t)
	pol := test.Must(vla.New(cfg, own, vec.Spec(), 1, tensor.Heap))(t)
	s := algo.Setup{Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), Seed: 1, Chunk: 2, Steps: 6,
		Envs: envs, Policy: pol,
		GlobalBatch: 64}
	s.Config.LogProbType, s.Optim.WeightDecay, s.Optim.ClipGrad = "token_level", 0, 1
	s.Optim.LR = 2e-3
	s.CriticOptim = s.Optim
	return reg, envCfg, s
}

// squaresDemos writes a number of episodes of the expert to a file.
func squaresDemos(t *testing.T, reg *env.Registry, episodes int) string {
	t.Helper()
	d := Demonstration{Episodes: episodes, All: true, Seed: 1, Noise: 0.2}
	test.OK(t, d.Play(reg, rolestest.EnvConfig("Squares-v0", 50)))
	path := filepath.Join(t.TempDir(), "demos.safetensors")
	test.OK(t, d.Write(path))
	return path
}

// trainSquares trains s.Policy for a number of rounds, and returns the metrics of each.
func trainSquares(t *testing.T, reg *env.Registry, cfg env.Config, s algo.Setup, demos string,
	rounds int) (all []algo.Metrics) {
	t.Helper()
	collector, err := NewSyncCollector(reg, cfg, s.Policy, 1)
	test.OK(t, err)
	if demos != "" {
		collector.CollectTransitions()
		if s.Demos, err = algo.ReadDemos(demos, collector.Fields(1)); err != nil {
			t.Fatal(err)
		}
	}
	s.Rollout = collector.Fields(s.Steps)
	a := test.Must(algo.Builtin().New(s))(t)
	trainer := &Trainer{Policy: s.Policy, Algorithm: a, Collector: collector}
	if demos != "" {
		trainer.Collector = nil
	}
	steps := s.Steps
	if demos != "" {
		steps = 0
	}
	test.OK(t, trainer.Train(t.Context(), rounds, steps, func(s Step) error {
		values := append([]float64(nil), s.Metrics.Values...)
		all = append(all, algo.Metrics{Names: s.Metrics.Names, Values: values})
		return nil
	}))
	return all
}

func squaresSuccess(t *testing.T, reg *env.Registry, pol policy.Policy) float64 {
	return success(t, reg, "Squares-v0", pol)
}

func success(t *testing.T, reg *env.Registry, id string, pol policy.Policy) float64 {
	t.Helper()
	e := test.Must(NewEvaluator(reg, rolestest.EnvConfig(id, 100)))(t)
	sum := test.Must(e.Evaluate(pol, 100, true))(t)
	return sum.Return
}

// A policy learns from demonstrations to see which square is meant: the loss falls, and it beats a new one. It reads:
// with the sentence for the other square it goes there. Then PPO and GRPO go on from it, with a ratio of exactly 1
// before the first step.
func TestSeesAndReads(t *testing.T) {
	reg, cfg, s := squaresPolicy(t, 32, nil)
	demos := squaresDemos(t, reg, 400)
	bc := s
	bc.Config.AdvType, bc.Config.LossType, bc.Config.UpdateEpoch = "embodied_bc", "embodied_bc", 100
	before := squaresSuccess(t, reg, s.Policy)
	m := trainSquares(t, reg, cfg, bc, demos, 8)
	cloned := squaresSuccess(t, reg, s.Policy)
	first, last := metric(t, m[0], "bc/loss"), metric(t, m[7], "bc/loss")
	t.Logf("loss %.2f, then %.2f; success %.2f, then %.2f", first, last, before, cloned)
	if last > 0.7*first || cloned < before+0.3 {
		t.Errorf("loss %.2f, then %.2f; success %.2f, then %.2f: nothing was learnt", first, last, before, cloned)
	}
	reg.Add("Squares-swapped", func(cfg env.Config, n int) (env.Vec, error) { return squares.NewSwapped(cfg, n) })
	if swapped := success(t, reg, "Squares-swapped", s.Policy); swapped > cloned-0.2 {
		t.Errorf("success %.2f with the sentence for the other square, %.2f with the right one: it does not read",
			swapped, cloned)
	}

	for _, c := range []struct {
		name   string
		change func(*algo.Setup)
	}{
		{"gae", func(s *algo.Setup) { s.Config.LossType, s.Optim.CriticWarmupSteps = "actor_critic", 2 }},
		{"grpo", func(s *algo.Setup) {
			s.Config.LossType, s.GroupSize, s.Config.FilterRewards = "actor", 4, true
			s.Config.RewardsLowerBound, s.Config.RewardsUpperBound = 0.1, 0.9
		}},
	} {
		rl, cfg := s, cfg
		rl.Config.AdvType, rl.Optim.LR, rl.GlobalBatch = c.name, 5e-4, 6*32
		c.change(&rl)
		cfg.GroupSize, cfg.AutoReset = max(1, rl.GroupSize), rl.GroupSize == 0
		m := trainSquares(t, reg, cfg, rl, "", 12)
		ratio, off := metric(t, m[0], "actor/ratio"), metric(t, m[0], "actor/ratio_abs")
		after := squaresSuccess(t, reg, s.Policy)
		t.Logf("%s: success %.2f", c.name, after)
		if ratio != 1 || off != 0 {
			t.Errorf("%s: the first ratio is %v, and differs from 1 by %v", c.name, ratio, off)
		}
		if after < cloned-0.15 {
			t.Errorf("%s: success %.2f after %.2f", c.name, after, cloned)
		}
	}
}
