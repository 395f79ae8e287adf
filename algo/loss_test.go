package algo_test

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/philox"
)

func clippedLoss(dLogProb, logProb, old, adv, weight []float32, c algo.Clip, scale float32) algo.SurrogateSums {
	o := algo.Surrogate{Kind: algo.Clipped, Clip: c}
	return o.Loss(dLogProb, algo.Samples{LogProb: logProb, Old: old, Adv: adv, Weight: weight}, scale)
}

func decoupledLoss(dLogProb, logProb, old, prox, adv, weight []float32, c algo.Clip, most,
	scale float32) algo.SurrogateSums {
	o := algo.Surrogate{Kind: algo.Decoupled, Clip: c, MaxWeight: most}
	return o.Loss(dLogProb, algo.Samples{LogProb: logProb, Old: old, Prox: prox, Adv: adv, Weight: weight}, scale)
}

func gradientLoss(dLogProb, logProb, adv, weight []float32, scale float32) algo.SurrogateSums {
	o := algo.Surrogate{Kind: algo.PolicyGradient}
	return o.Loss(dLogProb, algo.Samples{LogProb: logProb, Adv: adv, Weight: weight}, scale)
}

// One sample for each branch of the surrogate, with ε⁻ = 0.2, ε⁺ = 0.3, c = 3.
func TestPolicyLossBranches(t *testing.T) {
	clip := algo.Clip{Low: 0.2, High: 0.3, Dual: 3}
	for _, c := range []struct {
		name       string
		ratio, adv float64
		loss, grad float64 // of the loss by log-prob
		outside    float64
		dual       float64
	}{
		{"inside, good", 1.1, 2, -2.2, -2.2, 0, 0},
		{"inside, bad", 0.9, -2, 1.8, 1.8, 0, 0},
		{"above, good: clipped", 1.5, 2, -2.6, 0, 1, 0},
		{"above, bad: not clipped", 1.5, -2, 3, 3, 1, 0},
		{"below, good: not clipped", 0.5, 2, -1, -1, 1, 0},
		{"below, bad: clipped", 0.5, -2, 1.6, 0, 1, 0},
		{"far above, bad: dual clip", 5, -2, 6, 0, 1, 5},
		{"far above, good: clipped", 5, 2, -2.6, 0, 1, 0},
	} {
		old, d := []float32{-0.7}, []float32{99}
		s := clippedLoss(d, []float32{-0.7 + float32(math.Log(c.ratio))}, old, []float32{float32(c.adv)}, nil, clip,
			0.5)
		within(t, c.name+": loss", s.Loss, c.loss, 1e-5)
		within(t, c.name+": loss_abs", s.LossAbs, math.Abs(c.loss), 1e-5)
		within(t, c.name+": gradient", float64(d[0]), 0.5*c.grad, 1e-5)
		within(t, c.name+": ratio", s.Ratio, c.ratio, 1e-5)
		within(t, c.name+": ratio_abs", s.RatioAbs, math.Abs(c.ratio-1), 1e-5)
		within(t, c.name+": clipped ratio", s.Clipped, min(max(c.ratio, 0.8), 1.3), 1e-5)
		within(t, c.name+": approx_kl", s.KL, c.ratio-1-math.Log(c.ratio), 1e-5)
		within(t, c.name+": outside", s.Outside, c.outside, 0)
		within(t, c.name+": dual", s.DualClipped, c.dual, 1e-5)
		within(t, c.name+": count", s.Count, 1, 0)
	}
}

func TestPolicyLossClampsLogRatio(t *testing.T) {
	d := []float32{9, 9}
	s := clippedLoss(d, []float32{0.1, -5}, []float32{0, 0}, []float32{1, 1}, nil,
		algo.Clip{Low: 0.9, High: 0.9, LogMin: -1, LogMax: 1}, 1)
	within(t, "ratio", s.Ratio, math.Exp(0.1)+math.Exp(-1), 1e-6)
	within(t, "gradient inside", float64(d[0]), -math.Exp(0.1), 1e-6)
	within(t, "gradient of a clamped ratio", float64(d[1]), 0, 0)
}

// The second of three samples is masked: it is in no sum and has no gradient. A NaN of another sample reaches the
// gradient.
func TestLossesMask(t *testing.T) {
	mask := []float32{1, 0, 1}
	d := []float32{9, 9, 9, 9, 9, 9}
	zero := make([]float32, 6)
	nan := float32(math.NaN())
	s := clippedLoss(d, zero, zero, []float32{2, nan, 4}, mask, algo.Clip{Low: 0.2, High: 0.2}, 1)
	within(t, "policy loss", s.Loss, -12, 0)
	within(t, "count", s.Count, 4, 0)
	for i, want := range []float32{-2, -2, 0, 0, -4, -4} {
		within(t, "policy gradient", float64(d[i]), float64(want), 0)
	}
	v := algo.ValueLoss(d[:3], []float32{1, nan, 3}, zero[:3], []float32{2, 2, 5}, mask, 0, 0, 1)
	within(t, "value loss", v.Loss, 0.5+2, 0)
	within(t, "count", v.Count, 2, 0)
	for i, want := range []float32{-1, 0, -2} {
		within(t, "value gradient", float64(d[i]), float64(want), 0)
	}
	sum, n := algo.EntropyLoss(d, []float32{1, 2, nan, nan, 3, 4}, 3, mask, 0.25)
	within(t, "entropy", sum, 10, 0)
	within(t, "count", n, 4, 0)
	for i, want := range []float32{-.25, -.25, 0, 0, -.25, -.25} {
		within(t, "entropy gradient", float64(d[i]), float64(want), 0)
	}
	clippedLoss(d, zero, zero, []float32{nan, 0, 0}, mask, algo.Clip{Low: 0.2, High: 0.2, LogMin: -1, LogMax: 1}, 1)
	if !math.IsNaN(float64(d[0])) {
		t.Errorf("a NaN advantage gave gradient %v", d[0])
	}
	clippedLoss(d[:3], []float32{nan, 0, 0}, zero[:3], []float32{1, 1, 1}, nil,
		algo.Clip{Low: 0.2, High: 0.2, LogMin: -1, LogMax: 1}, 1)
	if !math.IsNaN(float64(d[0])) {
		t.Errorf("a NaN log-prob gave gradient %v", d[0])
	}
}

func TestValueLossBranches(t *testing.T) {
	for _, c := range []struct {
		name                        string
		value, old, ret             float32
		clip, delta                 float32
		wantLoss, wantGrad, clipped float64
	}{
		{"plain", 1, 0, 3, 0, 0, 2, -2, 0},
		{"huber, inside", 1, 0, 3, 0, 4, 2, -2, 0},
		{"huber, outside", 1, 0, 3, 0, 0.5, 0.5 * (2 - 0.25), -0.5, 0},
		{"huber, outside above", 5, 0, 3, 0, 0.5, 0.5 * (2 - 0.25), 0.5, 0},
		{"clip, within", 0.5, 0, 3, 1, 0, 3.125, -2.5, 0},
		{"clip, moved far towards the target: the clipped error is larger, no gradient", 2, 0, 3, 1, 0, 2, 0, 1},
		{"clip, moved far past the target", 9, 0, 3, 1, 0, 18, 6, 1},
		{"clip, moved far away", -4, 0, 3, 1, 0, 24.5, -7, 1},
	} {
		d := []float32{99}
		s := algo.ValueLoss(d, []float32{c.value}, []float32{c.old}, []float32{c.ret}, nil, c.clip, c.delta, 0.5)
		within(t, c.name+": loss", s.Loss, c.wantLoss, 1e-6)
		within(t, c.name+": gradient", float64(d[0]), 0.5*c.wantGrad, 1e-6)
		within(t, c.name+": clipped", s.Clipped, c.clipped, 0)
		within(t, c.name+": count", s.Count, 1, 0)
	}
}

// The gradients agree with central differences of the sums, at random points on all sides of all clips.
func TestLossGradientsByDifferences(t *testing.T) {
	const n, L = 200, 2
	s := philox.New(3, philox.Init, 0, 0)
	draw := func(n int, width float64) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(s.Uniform(-width, width))
		}
		return x
	}
	logProb, old, adv := draw(n*L, 1), draw(n*L, 1), draw(n, 2)
	value, oldValue, ret := draw(n, 3), draw(n, 3), draw(n, 3)
	mask := make([]float32, n)
	for i := range mask {
		mask[i] = float32(min(s.IntN(5), 1))
	}
	clip := algo.Clip{Low: 0.3, High: 0.2, Dual: 2, LogMin: -1.5, LogMax: 1.2}
	check := func(name string, x []float32, loss func(d []float32) float64) {
		t.Helper()
		checkDifferences(t, name, x, loss)
	}
	check("policy", logProb, func(d []float32) float64 { return clippedLoss(d, logProb, old, adv, mask, clip, 1).Loss })
	check("value", value,
		func(d []float32) float64 { return algo.ValueLoss(d, value, oldValue, ret, mask, 0.5, 1.5, 1).Loss })
	check("gradient", logProb, func(d []float32) float64 { return gradientLoss(d, logProb, adv, mask, 1).Loss })
	prox := draw(n*L, 1)
	check("decoupled", logProb,
		func(d []float32) float64 { return decoupledLoss(d, logProb, old, prox, adv, mask, clip, 2, 1).Loss })
	for _, kind := range []string{algo.KLK1, algo.KLAbs, algo.KLK2, algo.KLK3} {
		check("kl "+kind, logProb, func(d []float32) float64 {
			clear(d)
			sum, _ := algo.KLLoss(d, logProb, old, n, mask, kind, 1)
			return sum
		})
	}
	check("entropy", logProb, func(d []float32) float64 {
		sum, _ := algo.EntropyLoss(d, logProb, n, mask, 1)
		return -sum
	})
}

// checkDifferences compares the gradient that loss sets with differences of loss, which depends on x.
func checkDifferences(t *testing.T, name string, x []float32, loss func(d []float32) float64) {
	t.Helper()
	const h = 1e-3
	d, scratch := make([]float32, len(x)), make([]float32, len(x))
	loss(d)
	checked, kinks := 0, 0
	for i := range x {
		at := x[i]
		x[i] = at + h
		up, hi := loss(scratch), x[i]
		x[i] = at - h
		down, lo := loss(scratch), x[i]
		x[i] = at
		middle := loss(scratch)
		if math.Abs(up-2*middle+down) > 2*h*h*10 { // a kink lies between: no derivative to compare with
			kinks++
			continue
		}
		checked++
		if want := (up - down) / float64(hi-lo); math.Abs(float64(d[i])-want) > 1e-3*max(1, math.Abs(want)) {
			t.Errorf("%s: element %d: %v, by differences %v", name, i, d[i], want)
		}
	}
	if checked+kinks != len(x) || kinks > len(x)/20 {
		t.Errorf("%s: %d checked, %d at kinks, of %d", name, checked, kinks, len(x))
	}
}

// A sample's gradient is in proportion to its weight. The sums are not.
func TestLossesWeigh(t *testing.T) {
	logProb, old := []float32{0.1, -0.2, 0.05}, make([]float32, 3)
	adv, ret, weight := []float32{1, 2, -3}, []float32{1, -1, 2}, []float32{2, 0, 0.25}
	for name, loss := range map[string]func(d, weight []float32) float64{
		"policy": func(d, w []float32) float64 {
			return clippedLoss(d, logProb, old, adv, w, algo.Clip{Low: 0.2, High: 0.2}, 0.5).Loss
		},
		"gradient": func(d, w []float32) float64 { return gradientLoss(d, logProb, adv, w, 0.5).Loss },
		"value":    func(d, w []float32) float64 { return algo.ValueLoss(d, logProb, old, ret, w, 0, 0, 0.5).Loss },
		"entropy":  func(d, w []float32) float64 { sum, _ := algo.EntropyLoss(d, logProb, 3, w, 0.5); return sum },
		"kl": func(d, w []float32) float64 {
			clear(d)
			sum, _ := algo.KLLoss(d, logProb, old, 3, w, algo.KLK2, 0.5)
			return sum
		},
	} {
		plain, some, weighted := make([]float32, 3), make([]float32, 3), make([]float32, 3)
		loss(plain, nil)
		if a, b := loss(some, []float32{1, 0, 1}), loss(weighted, weight); a != b {
			t.Errorf("%s: Σ %v with weights, %v with a mask", name, b, a)
		}
		for i, w := range weight {
			within(t, name+": gradient", float64(weighted[i]), float64(w)*float64(plain[i]), 1e-7)
		}
	}
}

// L = -A log π, and its derivative is -A.
func TestGradientLoss(t *testing.T) {
	d := make([]float32, 4)
	s := gradientLoss(d, []float32{-1, -2, -0.5, -4}, []float32{3, -0.5}, nil, 0.5)
	within(t, "loss", s.Loss, 3*1+3*2-0.5*0.5-0.5*4, 1e-6)
	within(t, "loss_abs", s.LossAbs, 3*1+3*2+0.5*0.5+0.5*4, 1e-6)
	within(t, "count", s.Count, 4, 0)
	for i, want := range []float64{-1.5, -1.5, 0.25, 0.25} {
		within(t, "gradient", float64(d[i]), want, 1e-7)
	}
}
