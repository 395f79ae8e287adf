package algo

import "fmt"

// Values of Config.LossAggFunc: how the losses of samples become one.
const (
	TokenMean        = "token-mean"          // the mean over all samples that count
	SeqMeanTokenSum  = "seq-mean-token-sum"  // the mean over episodes of the sum over each
	SeqMeanTokenMean = "seq-mean-token-mean" // the mean over episodes of the mean over each
)

// CountSamples returns the number of samples that count, and of the sequences with such samples,
// the episodes of environments or the answers of a language model. of[i] is the sequence of sample
// i, -1 for none; a sample with weight 0 does not count. It fills counted with the samples of each
// sequence that count.
func CountSamples(counted []int, of []int32, weight []float32) (samples, sequences float64) {
	clear(counted)
	for i, k := range of {
		if k >= 0 && weight[i] != 0 {
			if counted[k]++; counted[k] == 1 {
				sequences++
			}
			samples++
		}
	}
	return samples, sequences
}

// Aggregate sets the weights of samples so that their mean loss, Σ weight·loss / samples, is the
// aggregate that how names (one of the constants). With S samples in K sequences that count, over
// all replicas, of which the sample's sequence has s:
//
//	token-mean: 1    seq-mean-token-sum: S/K    seq-mean-token-mean: S/(K s)
//
// RLinf's scale of embodied losses by valid steps is the last. of, weight and counted are those of
// CountSamples; samples that do not count keep weight 0.
func Aggregate(weight []float32, of []int32, counted []int, how string, samples, sequences float64) {
	if how == TokenMean {
		return
	}
	for i, k := range of {
		if k >= 0 && weight[i] != 0 {
			w := samples / sequences
			if how == SeqMeanTokenMean {
				w /= float64(counted[k])
			}
			weight[i] = float32(w)
		}
	}
}

// spread is Aggregate for the episodes of all replicas.
func (e *episodes) spread(weight []float32, how string, r Replicas) error {
	if how == TokenMean {
		return nil
	}
	e.sums[0], e.sums[1] = CountSamples(e.steps, e.of, weight) // from here on, steps are those that count
	if err := r.Sum(e.sums[:]); err != nil {
		return fmt.Errorf("samples and episodes: %w", err)
	}
	Aggregate(weight, e.of, e.steps, how, e.sums[0], e.sums[1])
	return nil
}
