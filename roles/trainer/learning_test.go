//go:build !race

// The race detector makes arithmetic ten times as slow, and all goroutines of these tests run in others.

package trainer

import (
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// Deviations that depend on the state, and actions that are squashed into the torque's bounds, teach Pendulum to swing up.
func TestSquashedDeviationByStateLearnsPendulum(t *testing.T) {
	s := algo.Setup{Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), Seed: 1, Steps: 64, Envs: 16, GlobalBatch: 64}
	s.Config.Gamma, s.Config.GAELambda, s.Config.UpdateEpoch, s.Config.NormalizeRewards = 0.95, 0.95, 8, true
	s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad = 2e-3, 0, 0.5
	cfg := rolestest.EnvConfig("Pendulum-v1", s.Envs)
	s.Policy = rolestest.NewPolicy(t, cfg, 1, func(net *policy.Config) { net.IndependentStd, net.ActionBound = false, policy.BoundTanh })
	before, after := learn(t, all.Registry(), cfg, s, 50)
	if before > -900 || after < -500 {
		t.Errorf("evaluation %.0f before, %.0f after: want at most -900, at least -500", before, after)
	}
}

// Without its velocities CartPole is learnt by a policy that remembers, and by no other.
func TestRecurrentLearnsMaskedCartPole(t *testing.T) {
	for model, want := range map[string][2]float64{"gru": {400, 500}, "lstm": {400, 500}, "mlp_policy": {0, 100}} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			s := algo.Setup{Config: algo.DefaultConfig(), Optim: algo.DefaultOptimConfig(), Seed: 1, Steps: 64, Envs: 16, GlobalBatch: 256}
			s.Config.Gamma, s.Config.GAELambda, s.Config.UpdateEpoch, s.Config.NormalizeRewards, s.Config.ValueLossCoef = 0.98, 0.9, 8, true, 0.5
			s.Optim.LR, s.Optim.WeightDecay, s.Optim.ClipGrad = 2e-3, 0, 0.5
			cfg := maskedCartPole(s.Envs)
			s.Policy = newRecurrent(t, cfg, func(net *policy.Config) {
				net.HiddenSizes, net.RNNHiddenSize, net.NormalizeObservations = []int{32}, 32, true
				if net.RNNType = model; model == "mlp_policy" {
					net.ModelType, net.RNNType = model, "gru"
				} else {
					s.Config.SequenceLength = 32
				}
			})
			if _, after := learn(t, all.Registry(), cfg, s, 70); after < want[0] || after > want[1] {
				t.Errorf("evaluation %.1f after: want it in %v", after, want)
			}
		})
	}
}
