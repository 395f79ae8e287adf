package algo_test

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/algo"
)

// The loss of an update is the weighted sum of its metrics.
func TestLossOfAnUpdate(t *testing.T) {
	ppo := mustPPO(t, ppoSetup(func(s *algo.Setup) {
		s.Policy, s.Config.KLBeta, s.Config.ValueLossCoef, s.Config.EntropyBonus = cartPolePolicy(t), 0.25, 0.5, 0.125
	})).PPO
	tests := []struct {
		name string
		of   algo.Algorithm
		m    algo.Metrics
		want float64
		ok   bool
	}{
		{"ppo", ppo, algo.Metrics{[]string{"actor/policy_loss", "actor/policy_loss_abs", "actor/entropy_loss",
			"critic/value_loss", "actor/kl_loss"},
			[]float64{-3, 100, 8, 6, 4}}, -3 + 0.25*4 + 0.5*6 - 0.125*8, true},
		{"ppo without a critic", ppo, algo.Metrics{[]string{"actor/policy_loss", "actor/entropy_loss"},
			[]float64{2, 8}}, 1, true},
		{"grpo", &algo.GRPO{PPO: ppo}, algo.Metrics{[]string{"actor/policy_loss", "actor/kl_loss"}, []float64{2, 4}},
			3, true},
		{"sac", &algo.SAC{}, algo.Metrics{[]string{"sac/critic_loss", "sac/actor_loss", "sac/alpha"},
			[]float64{1, 2, 4}}, 3, true},
		{"bc", &algo.BC{}, algo.Metrics{[]string{"bc/loss", "bc/val_loss"}, []float64{1, 2}}, 1, true},
		{"an own one", &algo.SAC{}, algo.Metrics{[]string{"rollout/returns_mean", "gloss"}, []float64{1, 2}}, 0, false},
	}
	for _, test := range tests {
		got, ok := algo.Loss(test.of, test.m)
		if math.Abs(got-test.want) > 1e-12 || ok != test.ok {
			t.Errorf("%s: %v, %v, want %v, %v", test.name, got, ok, test.want, test.ok)
		}
	}
}
