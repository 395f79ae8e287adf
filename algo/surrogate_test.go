package algo_test

import (
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
)

// With a proximal policy the clip is around it, and samples have no importance weight: the loss is that of samples
// by the proximal policy.
func TestClippedAroundProximal(t *testing.T) {
	o := algo.Surrogate{Kind: algo.Clipped, Clip: algo.Clip{Low: 0.2, High: 0.2, Dual: 3}}
	x := algo.Samples{LogProb: []float32{-1, -0.5, -2}, Old: []float32{-3, -3, -3}, Prox: []float32{-1.1, -1, -1},
		Adv: []float32{1, 1, -1}}
	got, want := make([]float32, 3), make([]float32, 3)
	s := o.Loss(got, x, 1)
	x.Old, x.Prox = x.Prox, nil
	if w := o.Loss(want, x, 1); s != w || !slices.Equal(got, want) {
		t.Errorf("%v with gradient %v, of samples by the proximal policy %v with %v", s, got, w, want)
	}
	within(t, "ratios", s.Ratio, math.Exp(0.1)+math.Exp(0.5)+math.Exp(-1), 1e-6)
	if s.Behave != 0 {
		t.Errorf("importance weights %v, want none", s.Behave)
	}
}

// The losses that environments and language models share allocate nothing.
func TestLossesAllocateNothing(t *testing.T) {
	x := algo.Samples{LogProb: make([]float32, 8), Old: make([]float32, 8), Prox: make([]float32, 8),
		Adv: make([]float32, 4)}
	d, of, weight, counted := make([]float32, 8), []int32{0, 0, 1, -1}, []float32{1, 1, 1, 1}, make([]int, 2)
	for _, kind := range []algo.SurrogateKind{algo.Clipped, algo.Decoupled, algo.PolicyGradient} {
		o := algo.Surrogate{Kind: kind}
		test.NoAllocs(t, 10, func() { o.Loss(d, x, 1) }, "surrogate %d", kind)
	}
	test.NoAllocs(t, 10, func() {
		algo.KLLoss(d, x.LogProb, x.Old, 4, weight, algo.KLK3, 1)
		algo.ValueLoss(d, x.LogProb, x.Old, x.Prox, nil, 0.2, 1, 1)
		algo.EntropyLoss(d, x.LogProb, 4, weight, 1)
		samples, sequences := algo.CountSamples(counted, of, weight)
		algo.Aggregate(weight, of, counted, algo.SeqMeanTokenMean, samples, sequences)
	}, "the other losses")
}

// Three samples of two sequences count. In the mean over sequences of their means, the sequence of one sample has the
// weight of the sequence of two.
func TestAggregateWeights(t *testing.T) {
	of, counted := []int32{0, 0, 1, -1, 1}, make([]int, 2)
	for how, want := range map[string][]float32{
		algo.TokenMean: {1, 1, 1, 1, 0}, algo.SeqMeanTokenSum: {1.5, 1.5, 1.5, 1, 0},
		algo.SeqMeanTokenMean: {0.75, 0.75, 1.5, 1, 0},
	} {
		weight := []float32{1, 1, 1, 1, 0}
		samples, sequences := algo.CountSamples(counted, of, weight)
		if algo.Aggregate(weight, of, counted, how, samples, sequences); samples != 3 || sequences != 2 ||
			!slices.Equal(weight, want) {
			t.Errorf("%s: %v of %v samples in %v sequences, want %v of 3 in 2", how, weight, samples, sequences, want)
		}
	}
}
