package vla

import (
	"math"
	"testing"
)

// A step without noise is one of Euler's, x - v·δ. With noise mean and deviation are those of πRL, here by
// hand for t = 1 and 0.4 of five steps. At t = 1, σ² = 0.25·1/0.2 = 1.25, and the noise keeps
// 0.8 - 1.25·0.2/2 = 0.675 of its weight. At t = 0.4, σ² = 0.25·0.4/0.6, and it keeps 0.2 - 0.1667·0.2/0.8.
func TestFlowStep(t *testing.T) {
	d := &denoiser{steps: 5, noise: 0.5}
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	const x, v = 0.3, -0.7
	for _, at := range []float64{1, 0.8, 0.2} {
		mean, deviation, slope := d.step(x, v, at, false)
		near("mean", mean, x-0.2*v)
		near("deviation", deviation, 0)
		near("slope", slope, -0.2)
	}
	for _, c := range []struct{ t, toAction, toNoise, deviation float64 }{
		{1, 0.2, 0.675, math.Sqrt(1.25 * 0.2)},
		{0.4, 0.8, 0.2 - 0.25*0.4/0.6*0.2/0.8, math.Sqrt(0.25 * 0.4 / 0.6 * 0.2)},
	} {
		mean, deviation, slope := d.step(x, v, c.t, true)
		near("mean", mean, (x-v*c.t)*c.toAction+(x+v*(1-c.t))*c.toNoise)
		near("deviation", deviation, c.deviation)
		near("slope", slope, -c.t*c.toAction+(1-c.t)*c.toNoise)
	}
}
