package algo

import "fmt"

// episodes are the episodes of a rollout. Each is a run of samples in one environment, up to the end of the episode or
// of the rollout.
type episodes struct {
	of    []int32   // [T·N]: index of the episode that holds each sample; -1 if the environment was idle
	score []float64 // Σ reward of each episode
	steps []int     // number of samples of each episode
	first []int32   // index of the first sample of each episode

	relative []float64  // scratch space of estimators: a number for each episode
	sums     [2]float64 // numbers of samples and of episodes that count; see CountSamples
}

func newEpisodes(samples int) *episodes { return &episodes{of: make([]int32, samples)} }

// find finds the episodes of tr, ordered by first step, and then by environment. Samples with mask 0 belong to no
// episode.
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

// grouped returns an error unless the episodes of each group can be compared. A group is size successive episodes,
// which must begin at the same step in neighbouring environments.
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
