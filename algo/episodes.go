package algo

import "fmt"

// episodes are the episodes of a rollout. An episode is a run of samples in one environment, up to the end of the
// episode or of the rollout.
type episodes struct {
	of    []int32   // T·N: the episode that a sample belongs to; -1: no episode, because the environment was idle
	score []float64 // of each episode: Σ reward
	steps []int     // number of its samples
	first []int32   // index of its first sample

	relative []float64  // scratch space of estimators: a number for each episode
	sums     [2]float64 // samples and episodes that count
}

func newEpisodes(samples int) *episodes { return &episodes{of: make([]int32, samples)} }

// find numbers the episodes of tr by the step at which they begin, then by their environments. Samples with mask 0
// belong to no episode.
func (e *episodes) find(tr *Trajectory, mask []uint8) {
	e.score, e.steps, e.first = e.score[:0], e.steps[:0], e.first[:0]
	for i, r := range tr.Reward {
		if mask != nil && mask[i] == 0 {
			e.of[i] = -1
			continue
		}
		before := i - tr.N
		if before < 0 || e.of[before] < 0 || tr.Terminated[before]|tr.Truncated[before] != 0 {
			e.of[i] = int32(len(e.score))
			e.score, e.steps, e.first = append(e.score, 0), append(e.steps, 0), append(e.first, int32(i))
		} else {
			e.of[i] = e.of[before]
		}
		e.score[e.of[i]] += float64(r)
		e.steps[e.of[i]]++
	}
}

// grouped checks that the episodes of each group can be compared: size successive episodes must
// begin together, in neighbouring environments.
func (e *episodes) grouped(size, envs int) error {
	for k, first := range e.first {
		if int(first)%envs != k%envs || k%envs > 0 && int(first)-int(e.first[k-1]) != 1 {
			return fmt.Errorf("episode %d begins at step %d of environment %d: episodes of a group of %d must begin "+
				"together, as without auto_reset", k, int(first)/envs, int(first)%envs, size)
		}
	}
	if len(e.first)%envs != 0 {
		return fmt.Errorf("%d episodes in %d environments: expected as many in each", len(e.first), envs)
	}
	return nil
}

// keep gives weight 0 to the samples of groups whose mean score is not within [lower, upper].
func (e *episodes) keep(weight []float32, size int, lower, upper float64) {
	for i, k := range e.of {
		if k >= 0 {
			if m := mean(e.groupOf(int(k), size)); m < lower || m > upper {
				weight[i] = 0
			}
		}
	}
}

// groupOf returns the scores of the group that episode k belongs to.
func (e *episodes) groupOf(k, size int) []float64 {
	lo := k / size * size
	return e.score[lo : lo+size]
}

func mean[F float32 | float64](x []F) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v)
	}
	return sum / float64(len(x))
}
