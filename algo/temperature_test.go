package algo

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// TestAlpha: the first parameter gives the first α, and slopes agree with differences.
func TestAlpha(t *testing.T) {
	for _, kind := range []string{AlphaSoftplus, AlphaExp, AlphaFixed} {
		for _, alpha := range []float32{0.001, 0.01, 1, 5} {
			x := float64(rawAlpha(EntropyConfig{AlphaType: kind, InitialAlpha: alpha}))
			if got := alphaOf(kind, x); math.Abs(got-float64(alpha)) > 1e-6*max(1, float64(alpha)) {
				t.Errorf("%s: α %v, want %v", kind, got, alpha)
			}
			const h = 1e-5
			want := (alphaOf(kind, x+h) - alphaOf(kind, x-h)) / (2 * h)
			if got := alphaSlope(kind, x); kind != AlphaFixed && math.Abs(got-want) > 1e-6*max(1, want) {
				t.Errorf("%s at %v: slope %v, want %v", kind, x, got, want)
			}
		}
	}
}

// TestTemperature: for 64 samples with a mean log π of -1.5 or 2.5, and the target -2, the loss -α (log π + target) has
// the slope 3.5 or -0.5 by α.
func TestTemperature(t *testing.T) {
	for _, c := range []struct {
		alphaType      string
		alpha, logProb float64
		slope          float64 // by the parameter
	}{
		{AlphaSoftplus, 1, -1.5, 3.5 * (1 - 1/math.E)}, // log(1 + eˣ) = 1 where eˣ = e - 1
		{AlphaSoftplus, 1, 2.5, -0.5 * (1 - 1/math.E)},
		{AlphaExp, 0.2, -1.5, 3.5 * 0.2},
		{AlphaExp, 0.2, 2.5, -0.5 * 0.2},
		{AlphaFixed, 0.2, 2.5, 0},
	} {
		optim := DefaultOptimConfig()
		optim.LR, optim.WeightDecay = 3e-3, 0
		a, err := newTemperature(&Setup{Alloc: tensor.Heap, Replicas: Single{}}, EntropyConfig{AlphaType: c.alphaType,
			InitialAlpha: float32(c.alpha), TargetEntropy: -2, Optim: optim})
		test.OK(t, err)
		test.OK(t, a.update(0, 64*c.logProb, 64, 1.0/64))
		near(t, c.alphaType+": slope", float64(a.train.params.Grad[0]), c.slope, 1e-6)
		if moved := a.alpha() - c.alpha; math.Abs(moved) < 1e-7 != (c.slope == 0) || moved*c.slope > 0 {
			t.Errorf("%s: α moved by %v against a slope of %v", c.alphaType, moved, c.slope)
		}
	}
}
