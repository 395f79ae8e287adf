package algo

import "fmt"

// Values of Config.LossAggFunc: how the losses of samples are combined.
const (
	TokenMean        = "token-mean"          // the mean over all samples that count
	SeqMeanTokenSum  = "seq-mean-token-sum"  // the sum over each episode, then the mean over episodes
	SeqMeanTokenMean = "seq-mean-token-mean" // the mean over each episode, then the mean over episodes
)

// CountSamples returns the number of samples that count, and the number of sequences with a sample that counts. A
// sample counts if its weight is not 0. A sequence is an episode of an environment or an answer of a language model.
// sequenceOf[i] is the index of the sequence that holds sample i, or -1 if no sequence holds it. CountSamples sets
// counted[k] to the number of samples that count in sequence k.
func CountSamples(counted []int, sequenceOf []int32, weight []float32) (samples, sequences float64) {
	clear(counted)
	for i, k := range sequenceOf {
		if k >= 0 && weight[i] != 0 {
			if counted[k]++; counted[k] == 1 {
				sequences++
			}
			samples++
		}
	}
	return samples, sequences
}

// Aggregate sets the weights of samples so that Σ weight·loss / S is the aggregate of the losses. kind is TokenMean,
// SeqMeanTokenSum or SeqMeanTokenMean. S and K are the numbers of samples and of sequences from CountSamples, summed
// over all replicas. In a sequence with s samples that count, the weight of a sample is
//
//	token-mean: 1    seq-mean-token-sum: S/K    seq-mean-token-mean: S/(K s)
//
// RLinf's scaling of embodied losses by valid steps is seq-mean-token-mean. sequenceOf, weight and counted are as in
// CountSamples. Weights of 0 stay 0.
func Aggregate(weight []float32, sequenceOf []int32, counted []int, kind string, samples, sequences float64) {
	if kind == TokenMean {
		return
	}
	for i, k := range sequenceOf {
		if k >= 0 && weight[i] != 0 {
			w := samples / sequences
			if kind == SeqMeanTokenMean {
				w /= float64(counted[k])
			}
			weight[i] = float32(w)
		}
	}
}

// spread calls Aggregate for the episodes, with the counts of all replicas.
func (e *episodes) spread(weight []float32, kind string, r Replicas) error {
	if kind == TokenMean {
		return nil
	}
	e.sums[0], e.sums[1] = CountSamples(e.steps, e.of, weight) // e.steps becomes the number of samples that count
	if err := r.Sum(e.sums[:]); err != nil {
		return fmt.Errorf("samples and episodes: %w", err)
	}
	Aggregate(weight, e.of, e.steps, kind, e.sums[0], e.sums[1])
	return nil
}
