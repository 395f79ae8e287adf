package trainer

import (
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/tensor"
)

// learn trains s.Policy in the environments of cfg, and returns its evaluations before and after.
func learn(t *testing.T, reg *env.Registry, cfg env.Config, s algo.Setup, rounds int) (before, after float64) {
	t.Helper()
	collector, err := NewSyncCollector(reg, cfg, s.Policy, 1)
	test.OK(t, err)
	if algo.Builtin().OffPolicy(s.Config) {
		collector.CollectTransitions()
	}
	if s.Config.RewardType == algo.ActionLevel {
		collector.CollectActionRewards()
	}
	s.Rollout = collector.Fields(s.Steps)
	algorithm, err := algo.Builtin().New(s)
	test.OK(t, err)
	episodes := rolestest.EnvConfig(cfg.EnvType, 20)
	episodes.StateElements, episodes.FrameStack = cfg.StateElements, cfg.FrameStack
	eval, err := NewEvaluator(reg, episodes)
	test.OK(t, err)
	trainer := &Trainer{Policy: s.Policy, Algorithm: algorithm, Collector: collector, Evaluator: eval}
	first, err := trainer.Evaluate(20, true)
	test.OK(t, err)
	test.OK(t, trainer.Train(t.Context(), rounds, s.Steps, nil))
	last, err := trainer.Evaluate(20, true)
	test.OK(t, err)
	t.Logf("evaluation %.1f before, %.1f after", first.Return, last.Return)
	return first.Return, last.Return
}

// policyFor makes the policy of net for the environments of cfg.
func policyFor(t *testing.T, reg *env.Registry, cfg env.Config, net policy.Config) policy.Policy {
	t.Helper()
	vec, err := reg.New(cfg, 1)
	test.OK(t, err)
	pol, err := policy.Builtin().New(net, vec.Spec(), 1, tensor.Heap)
	test.OK(t, err)
	return pol
}
