package algo

import "fmt"

// Values of Config.LossAggFunc: how the losses of samples become one.
const (
	TokenMean        = "token-mean"          // the mean over all samples that count
	SeqMeanTokenSum  = "seq-mean-token-sum"  // the mean over episodes of the sum over each
	SeqMeanTokenMean = "seq-mean-token-mean" // the mean over episodes of the mean over each
)

// spread multiplies the weights of samples so that their mean loss, Σ weight·loss / samples, is the
// aggregate that how names, over all replicas. With S samples in K episodes that count, of which
// the sample's has s:
//
//	token-mean: 1    seq-mean-token-sum: S/K    seq-mean-token-mean: S/(K s)
//
// RLinf's scale of embodied losses by valid steps is the last.
func (e *episodes) spread(weight []float32, how string, r Replicas) error {
	if how == TokenMean {
		return nil
	}
	clear(e.steps) // only what counts does
	e.sums = [2]float64{}
	for i, k := range e.of {
		if k >= 0 && weight[i] != 0 {
			if e.steps[k]++; e.steps[k] == 1 {
				e.sums[1]++
			}
			e.sums[0]++
		}
	}
	if err := r.Sum(e.sums[:]); err != nil {
		return fmt.Errorf("samples and episodes: %w", err)
	}
	for i, k := range e.of {
		if k >= 0 && weight[i] != 0 {
			w := e.sums[0] / e.sums[1]
			if how == SeqMeanTokenMean {
				w /= float64(e.steps[k])
			}
			weight[i] = float32(w)
		}
	}
	return nil
}
