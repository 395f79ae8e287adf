package algo_test

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
)

func TestAggregateQ(t *testing.T) {
	q := []float32{1, 5, 2, 4, 3, 9} // three heads, two samples
	got := make([]float32, 2)
	for _, c := range []struct {
		heads []int
		how   string
		want  []float32
	}{
		{[]int{0, 1, 2}, algo.AggMin, []float32{1, 4}},
		{[]int{0, 1, 2}, algo.AggMean, []float32{2, 6}},
		{[]int{2, 1}, algo.AggMin, []float32{2, 4}},
		{[]int{2}, algo.AggMean, []float32{3, 9}},
	} {
		if algo.AggregateQ(got, q, c.heads, c.how); !slices.Equal(got, c.want) {
			t.Errorf("%s of heads %v: %v, want %v", c.how, c.heads, got, c.want)
		}
	}
}

// The targets by hand: 1 + ½ (10 - 0.2·(-3)) = 6.3; where nothing follows the reward alone, whatever the critic says.
func TestSoftTargets(t *testing.T) {
	y := make([]float32, 2)
	algo.SoftTargets(y, []float32{1, 2}, []float32{0.5, 0}, []float32{10, float32(math.Inf(1))}, []float32{-3, 1}, 0.2)
	if math.Abs(float64(y[0])-6.3) > 1e-6 || y[1] != 2 {
		t.Errorf("targets %v, want 6.3 and 2", y)
	}
}

// Two heads, two samples, by hand: errors 1, -2 of the first head and 3, 0 of the second.
func TestQLoss(t *testing.T) {
	dQ := make([]float32, 4)
	squares, estimates := algo.QLoss(dQ, []float32{2, 0, 4, 2}, []float32{1, 2}, 0.5)
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
	for how, want := range map[string]float64{
		algo.AggMin: 0.3*0.5 - 2 + 0.3*(-2) + 4, algo.AggMean: 0.3*0.5 - 2.5 + 0.3*(-2) + 2.5,
	} {
		loss, estimates := algo.SoftActorLoss(dQ, dLogProb, q, logProb, how, 0.3, 2)
		if math.Abs(loss-want) > 1e-6 {
			t.Errorf("%s: loss %v, want %v", how, loss, want)
		}
		if wantQ := map[string]float64{algo.AggMin: -2, algo.AggMean: 0}[how]; math.Abs(estimates-wantQ) > 1e-6 {
			t.Errorf("%s: estimates %v, want %v", how, estimates, wantQ)
		}
		checked := 0
		for _, in := range []struct{ x, grad []float32 }{{q, dQ}, {logProb, dLogProb}} {
			for i, x := range in.x {
				const h = 1.0 / 64
				in.x[i] = x + h
				up, _ := algo.SoftActorLoss(spare, spareLP, q, logProb, how, 0.3, 2)
				in.x[i] = x - h
				down, _ := algo.SoftActorLoss(spare, spareLP, q, logProb, how, 0.3, 2)
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
