package algo

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

func TestAggregateQ(t *testing.T) {
	q := []float32{1, 5, 2, 4, 3, 9} // three heads, two samples
	got := make([]float32, 2)
	for _, c := range []struct {
		heads []int
		how   string
		want  []float32
	}{
		{[]int{0, 1, 2}, AggMin, []float32{1, 4}},
		{[]int{0, 1, 2}, AggMean, []float32{2, 6}},
		{[]int{2, 1}, AggMin, []float32{2, 4}},
		{[]int{2}, AggMean, []float32{3, 9}},
	} {
		if AggregateQ(got, q, c.heads, c.how); !slices.Equal(got, c.want) {
			t.Errorf("%s of heads %v: %v, want %v", c.how, c.heads, got, c.want)
		}
	}
}

// The targets by hand: 1 + ½ (10 - 0.2·(-3)) = 6.3; where nothing follows the reward alone, whatever the critic says.
func TestSoftTargets(t *testing.T) {
	y := make([]float32, 2)
	SoftTargets(y, []float32{1, 2}, []float32{0.5, 0}, []float32{10, float32(math.Inf(1))}, []float32{-3, 1}, 0.2)
	if math.Abs(float64(y[0])-6.3) > 1e-6 || y[1] != 2 {
		t.Errorf("targets %v, want 6.3 and 2", y)
	}
}

// Two heads, two samples, by hand: errors 1, -2 of the first head and 3, 0 of the second.
func TestQLoss(t *testing.T) {
	dQ := make([]float32, 4)
	squares, estimates := QLoss(dQ, []float32{2, 0, 4, 2}, []float32{1, 2}, 0.5)
	if want := []float32{0.5, -1, 1.5, 0}; !slices.Equal(dQ, want) {
		t.Errorf("gradient %v, want %v", dQ, want)
	}
	if squares != (1+4+9)/2. || estimates != (2+0+4+2)/2. {
		t.Errorf("squares %v, estimates %v, want 7 and 4", squares, estimates)
	}
}

// TestSoftActorLoss compares the gradient by estimates and log-probs with differences, and the value with one by hand.
func TestSoftActorLoss(t *testing.T) {
	q, logProb := []float32{2, -1, 3, -4}, []float32{0.5, -2}
	dQ, dLogProb := make([]float32, 4), make([]float32, 2)
	spare, spareLP := make([]float32, 4), make([]float32, 2)
	for how, want := range map[string]float64{AggMin: 0.3*0.5 - 2 + 0.3*(-2) + 4, AggMean: 0.3*0.5 - 2.5 + 0.3*(-2) + 2.5} {
		loss, estimates := SoftActorLoss(dQ, dLogProb, q, logProb, how, 0.3, 2)
		if math.Abs(loss-want) > 1e-6 {
			t.Errorf("%s: loss %v, want %v", how, loss, want)
		}
		if wantQ := map[string]float64{AggMin: -2, AggMean: 0}[how]; math.Abs(estimates-wantQ) > 1e-6 {
			t.Errorf("%s: estimates %v, want %v", how, estimates, wantQ)
		}
		checked := 0
		for _, in := range []struct{ x, grad []float32 }{{q, dQ}, {logProb, dLogProb}} {
			for i, x := range in.x {
				const h = 1.0 / 64
				in.x[i] = x + h
				up, _ := SoftActorLoss(spare, spareLP, q, logProb, how, 0.3, 2)
				in.x[i] = x - h
				down, _ := SoftActorLoss(spare, spareLP, q, logProb, how, 0.3, 2)
				in.x[i] = x
				if want := 2 * (up - down) / (2 * h); math.Abs(float64(in.grad[i])-want) > 1e-4 {
					t.Errorf("%s: derivative %v, by differences %v", how, in.grad[i], want)
				}
				checked++
			}
		}
		if checked != 6 {
			t.Errorf("%d derivatives checked", checked)
		}
	}
}

func TestFollow(t *testing.T) {
	target := []float32{0, 8}
	follow(target, []float32{4, 0}, 0.25)
	if !slices.Equal(target, []float32{1, 6}) {
		t.Errorf("target %v, want [1 6]", target)
	}
}

// TestAlpha: the parameter of the first α gives it back, and slopes are those of differences.
func TestAlpha(t *testing.T) {
	for _, kind := range []string{AlphaSoftplus, AlphaExp, AlphaFixed} {
		for _, alpha := range []float32{0.001, 0.01, 1, 5} {
			x := float64(rawAlpha(EntropyConfig{AlphaType: kind, InitialAlpha: alpha}))
			if got := alphaOf(kind, x); math.Abs(got-float64(alpha)) > 1e-6*max(1, float64(alpha)) {
				t.Errorf("%s: α %v, want %v", kind, got, alpha)
			}
			const h = 1e-5
			if want := (alphaOf(kind, x+h) - alphaOf(kind, x-h)) / (2 * h); kind != AlphaFixed && math.Abs(alphaSlope(kind, x)-want) > 1e-6*max(1, want) {
				t.Errorf("%s at %v: slope %v, want %v", kind, x, alphaSlope(kind, x), want)
			}
		}
	}
}

// estimates returns what a critic says with the given parameters, [H,N]; of no action where it is a critic of what is observed alone.
func estimates(t *testing.T, c *policy.Critic, params []float32, obs tensor.Dict, action tensor.Tensor) []float32 {
	t.Helper()
	p := c.Params()
	own := p.Data
	p.Data = params
	q, err := c.Q(c.NewWork(obs.Must("state").Dim(0)), obs, action)
	p.Data = own
	if err != nil {
		t.Fatal(err)
	}
	return q.F32()
}

// acts returns what a policy does with the given parameters.
func acts(t *testing.T, pol policy.Policy, params []float32, obs tensor.Dict, mode policy.Mode, noise policy.Noise) policy.Act {
	t.Helper()
	p := pol.Params()
	own := p.Data
	p.Data = params
	act, err := pol.Forward(pol.NewWork(obs.Must("state").Dim(0)), obs, mode, noise)
	p.Data = own
	if err != nil {
		t.Fatal(err)
	}
	return act
}

// meanSquare returns the mean of (q - y)² over N samples and all heads, for estimates q, [H,N].
func meanSquare(q, y []float32) (mean float64) {
	for i, x := range q {
		e := float64(x) - float64(y[i%len(y)])
		mean += e * e / float64(len(q))
	}
	return mean
}

// checkSlope checks that grad is the gradient of loss at params: a step along it changes the loss by its length.
func checkSlope(t *testing.T, what string, grad, params []float32, loss func(params []float32) float64) {
	t.Helper()
	var length float64
	for _, g := range grad {
		length += float64(g) * float64(g)
	}
	length = math.Sqrt(length)
	const h = 2e-3
	moved := func(by float64) float64 {
		x := slices.Clone(params)
		for i, g := range grad {
			x[i] += float32(by * float64(g) / length)
		}
		return loss(x)
	}
	if slope := (moved(h) - moved(-h)) / (2 * h); !(math.Abs(slope-length) < 0.01*length) {
		t.Errorf("%s: gradient of length %v, along it the loss grows by %v", what, length, slope)
	}
}
