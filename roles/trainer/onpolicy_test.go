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
	collector := test.Must(NewSyncCollector(reg, cfg, s.Policy, 1))(t)
	if algo.Builtin().OffPolicy(s.Config) {
		collector.CollectTransitions()
	}
	if s.Config.RewardType == algo.ActionLevel {
		collector.CollectActionRewards()
	}
	s.Rollout = collector.Fields(s.Steps)
	algorithm := test.Must(algo.Builtin().New(s))(t)
	episodes := rolestest.EnvConfig(cfg.EnvType, 20)
	episodes.StateElements, episodes.FrameStack = cfg.StateElements, cfg.FrameStack
	eval := test.Must(NewEvaluator(reg, episodes))(t)
	trainer := &Trainer{Policy: s.Policy, Algorithm: algorithm, Collector: collector, Evaluator: eval}
	first := test.Must(trainer.Evaluate(20, true))(t)
	test.OK(t, trainer.Train(t.Context(), rounds, s.Steps, nil))
	last := test.Must(trainer.Evaluate(20, true))(t)
	t.Logf("evaluation %.1f before, %.1f after", first.Return, last.Return)
	return first.Return, last.Return
}

// policyFor makes the policy of net for the environments of cfg.
func policyFor(t *testing.T, reg *env.Registry, cfg env.Config, net policy.Config) policy.Policy {
	t.Helper()
	vec := test.Must(reg.New(cfg, 1))(t)
	pol := test.Must(policy.Builtin().New(net, vec.Spec(), 1, tensor.Heap))(t)
	return pol
}
