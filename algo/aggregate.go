package algo

import "fmt"

// Values of Config.LossAggFunc: how the losses of samples are combined.
const (
	TokenMean        = "token-mean"          // the mean over all samples that count
	SeqMeanTokenSum  = "seq-mean-token-sum"  // the mean over episodes of each episode's sum
	SeqMeanTokenMean = "seq-mean-token-mean" // the mean over episodes of each episode's mean
)

// CountSamples returns the number of samples that count, and the number of sequences that have such
// samples. A sequence is an episode of an environment or an answer of a language model. of[i] is
// the sequence of sample i, or -1 for none. A sample with weight 0 does not count. CountSamples
// sets counted[k] to the number of samples of sequence k that count.
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

// Aggregate sets the weights of samples so that Σ weight·loss / samples is the aggregate of the losses. The argument
// how is one of the constants above. Over all replicas, S samples in K sequences count. A sample in a sequence with s
// samples that count gets the weight
//
//	token-mean: 1    seq-mean-token-sum: S/K    seq-mean-token-mean: S/(K s)
//
// seq-mean-token-mean is RLinf's scale of embodied losses by valid steps. of, weight and counted are as in
// CountSamples. Samples that do not count keep weight 0.
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

// spread is Aggregate with the numbers of samples and episodes of all replicas.
func (e *episodes) spread(weight []float32, how string, r Replicas) error {
	if how == TokenMean {
		return nil
	}
	e.sums[0], e.sums[1] = CountSamples(e.steps, e.of, weight) // e.steps becomes the number of samples that count
	if err := r.Sum(e.sums[:]); err != nil {
		return fmt.Errorf("samples and episodes: %w", err)
	}
	Aggregate(weight, e.of, e.steps, how, e.sums[0], e.sums[1])
	return nil
}
