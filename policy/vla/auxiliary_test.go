package vla_test

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// The log-prob of a prediction is a parabola in each target, of the configured weight. It follows the log-probs of
// actions, which do not change.
func TestAuxiliaryPrediction(t *testing.T) {
	cfg, own := small()
	own.Foresight = 0.5
	const n = 2
	p := newPolicy(t, cfg, own)
	obs, w, action := observe(n, 2), p.NewWork(n), tensor.New(tensor.F32, n, 2, 3)
	deviation := tensor.New(tensor.F32, n, 3) // two rows: mean 0, deviation 2
	for k := range 3 {
		deviation.F32()[k], deviation.F32()[3+k] = 2, -2
	}
	var demos tensor.Dict
	demos.Set("proprio", deviation)
	test.OK(t, p.Fit(demos, action))
	eval := func() []float32 { return f32(evaluate(t, p, w, obs, action).LogProb.At(1).F32()...) }
	plain := eval()
	goal := goals(n)
	obs.Set(policy.Goal, goal)
	var logp [3]float64
	for i := range logp {
		goal.At(1).F32()[4] = float32(i - 1)
		got := eval()
		if len(got) != len(plain)+1 {
			t.Fatalf("%d log-probs, want %d", len(got), len(plain)+1)
		}
		for k, v := range plain {
			test.Equal(t, got[k], v, "log-prob %d", k)
		}
		logp[i] = float64(got[len(plain)])
	}
	if got, want := logp[0]+logp[2]-2*logp[1], -0.5/(2*2); math.Abs(got-want) > 1e-3 { // -w/deviation²
		t.Errorf("curvature %g, want %g", got, want)
	}
	obs.Set(policy.Goal, tensor.New(tensor.F32, n, 5))
	if _, err := p.Evaluate(w, obs, action); err == nil {
		t.Error("5 goals of 6 are taken")
	}
}
