package trainer

import (
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/tensor"
)

// Every way to advantages and losses teaches CartPole something, in a few updates of a fixed seed.
func TestOnPolicyLearnsCartPole(t *testing.T) {
	episodes := func(s *algo.Setup) {
		s.Steps, s.Envs, s.GlobalBatch, s.GroupSize = 200, 32, 1600, 8
		s.Config.LossType, s.Config.UpdateEpoch = "actor", 4
	}
	for _, c := range []struct {
		name   string
		rounds int
		change func(*algo.Setup)
	}{
		{"grpo", 20, func(s *algo.Setup) { episodes(s); s.Config.AdvType = "grpo" }},
		{"dapo", 20, func(s *algo.Setup) {
			episodes(s)
			s.Config.AdvType, s.Config.ClipRatioHigh, s.Config.MaxNumGenBatches = "grpo", 0.28, 3
			s.Config.FilterRewards, s.Config.RewardsUpperBound = true, 199
			s.Config.LenRewardPenalty, s.Config.SafeLength, s.Config.MaxLength = 1, 190, 200
		}},
		{"grpo by episodes, with k3", 20, func(s *algo.Setup) {
			episodes(s)
			s.Config.AdvType, s.Config.LossAggFunc, s.Config.KLBeta = "grpo", algo.SeqMeanTokenMean, 1e-3
		}},
		{"reinpp", 25, func(s *algo.Setup) { episodes(s); s.Config.AdvType = "reinpp" }},
		{"reinpp with baseline and k1", 25, func(s *algo.Setup) {
			episodes(s)
			s.Config.AdvType, s.Config.UseReinppBaseline, s.Config.ReinppKLBeta = "reinpp", true, 1e-2
		}},
		{"a2c", 400, func(s *algo.Setup) {
			s.Steps, s.Envs, s.GlobalBatch = 16, 16, 256
			s.Config.LossType, s.Config.Gamma, s.Config.GAELambda, s.Config.ValueLossCoef = "a2c", 0.99, 0.95, 0.5
			s.Optim.LR = 4e-3
		}},
		{"ppo, advantages recomputed", 20, func(s *algo.Setup) {
			s.Steps, s.Envs, s.GlobalBatch = 64, 16, 256
			s.Config.Gamma, s.Config.GAELambda, s.Config.UpdateEpoch, s.Config.RecomputeAdvantages = 0.99, 0.95, 8, true
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := algo.Setup{Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), Seed: 1}
			s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad = 2e-3, 0, 0.5
			c.change(&s)
			cfg := rolestest.EnvConfig("CartPole-v1", s.Envs)
			cfg.AutoReset, cfg.GroupSize = s.GroupSize == 0, max(s.GroupSize, 1)
			s.Policy = rolestest.NewPolicy(t, cfg, 1, func(net *policy.Config) { net.AddValueHead = s.Config.LossType != "actor" })
			before, after := learn(t, all.Registry(), cfg, s, c.rounds)
			if before > 60 || after < 180 {
				t.Errorf("evaluation %.1f before, %.1f after: want at most 60, at least 180", before, after)
			}
		})
	}
}

// learn trains s.Policy in the environments of cfg, and returns its evaluations before and after.
func learn(t *testing.T, reg *env.Registry, cfg env.Config, s algo.Setup, rounds int) (before, after float64) {
	t.Helper()
	collector, err := NewSyncCollector(reg, cfg, s.Policy, 1)
	if err != nil {
		t.Fatal(err)
	}
	if algo.Builtin().OffPolicy(s.Config) {
		collector.CollectTransitions()
	}
	if s.Config.RewardType == algo.ActionLevel {
		collector.CollectActionRewards()
	}
	s.Rollout = collector.Fields(s.Steps)
	algorithm, err := algo.Builtin().New(s)
	if err != nil {
		t.Fatal(err)
	}
	episodes := rolestest.EnvConfig(cfg.EnvType, 20)
	episodes.StateElements, episodes.FrameStack = cfg.StateElements, cfg.FrameStack
	eval, err := NewEvaluator(reg, episodes)
	if err != nil {
		t.Fatal(err)
	}
	trainer := &Trainer{Policy: s.Policy, Algorithm: algorithm, Collector: collector, Evaluator: eval}
	first, err := trainer.Evaluate(20, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := trainer.Train(t.Context(), rounds, s.Steps, nil); err != nil {
		t.Fatal(err)
	}
	last, err := trainer.Evaluate(20, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("evaluation %.1f before, %.1f after", first.Return, last.Return)
	return first.Return, last.Return
}

// policyFor makes what net says for the environments of cfg.
func policyFor(t *testing.T, reg *env.Registry, cfg env.Config, net policy.Config) policy.Policy {
	t.Helper()
	vec, err := reg.New(cfg, 1)
	if err != nil {
		t.Fatal(err)
	}
	pol, err := policy.Builtin().New(net, vec.Spec(), 1, tensor.Heap)
	if err != nil {
		t.Fatal(err)
	}
	return pol
}
