package classic

import (
	"errors"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// TestPendulumExpert: the expert brings the pendulum from anywhere to rest without cost. A task without an expert
// returns an error.
func TestPendulumExpert(t *testing.T) {
	var s pendulum
	for _, at := range []float64{-3.1, -1.5, 0, 0.7, 3.14159} {
		for _, speed := range []float64{-1, 0, 1} {
			s = pendulum{at, speed}
			for range 150 {
				stepPendulum(&s, swingUp(&s))
			}
			if cost, _ := stepPendulum(&s, swingUp(&s)); cost < -1e-3 {
				t.Errorf("from θ = %v, ω = %v it is at θ = %v, ω = %v after 150 steps", at, speed, wrapAngle(s[0]),
					s[1])
			}
		}
	}
	cfg := env.DefaultConfig()
	cfg.EnvType, cfg.TotalNumEnvs = "Acrobot-v1", 1
	vec := test.Must(NewAcrobot(cfg, 1))(t)
	if err := env.Act(vec, tensor.New(tensor.I32, 1, 1, 1)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("an expert of Acrobot: %v", err)
	}
}
