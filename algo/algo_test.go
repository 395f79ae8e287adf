package algo

import (
	"math"
	"testing"
)

// The loss of an update is the weighted sum of its metrics.
func TestLossOfAnUpdate(t *testing.T) {
	ppo := &PPO{}
	ppo.cfg.KLBeta, ppo.cfg.ValueLossCoef, ppo.cfg.EntropyBonus = 0.25, 0.5, 0.125
	tests := []struct {
		name string
		of   Algorithm
		m    Metrics
		want float64
		ok   bool
	}{
		{"ppo", ppo, Metrics{[]string{"actor/policy_loss", "actor/policy_loss_abs", "actor/entropy_loss",
			"critic/value_loss", "actor/kl_loss"},
			[]float64{-3, 100, 8, 6, 4}}, -3 + 0.25*4 + 0.5*6 - 0.125*8, true},
		{"ppo without a critic", ppo, Metrics{[]string{"actor/policy_loss", "actor/entropy_loss"}, []float64{2, 8}},
			1, true},
		{"grpo", &GRPO{PPO: ppo}, Metrics{[]string{"actor/policy_loss", "actor/kl_loss"}, []float64{2, 4}}, 3, true},
		{"sac", &SAC{}, Metrics{[]string{"sac/critic_loss", "sac/actor_loss", "sac/alpha"}, []float64{1, 2, 4}}, 3,
			true},
		{"bc", &BC{}, Metrics{[]string{"bc/loss", "bc/val_loss"}, []float64{1, 2}}, 1, true},
		{"an own one", &SAC{}, Metrics{[]string{"rollout/returns_mean", "gloss"}, []float64{1, 2}}, 0, false},
	}
	for _, test := range tests {
		got, ok := Loss(test.of, test.m)
		if math.Abs(got-test.want) > 1e-12 || ok != test.ok {
			t.Errorf("%s: %v, %v, want %v, %v", test.name, got, ok, test.want, test.ok)
		}
	}
}
