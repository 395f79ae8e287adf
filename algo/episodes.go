package algo

import "fmt"

// episodes are the episodes of a rollout. An episode is a run of successive samples in one environment. It ends with
// the episode or with the rollout.
type episodes struct {
	of    []int32   // [T·N]: index of the episode that holds each sample; -1 if the environment was idle
	score []float64 // Σ reward of each episode
	steps []int     // number of samples of each episode
	first []int32   // index of the first sample of each episode
	group []int32   // index of the first episode in the group of each episode; see divide

	relative []float64  // scratch space of estimators: a number for each episode
	sums     [2]float64 // numbers of samples and of episodes that count; see CountSamples
}

func newEpisodes(samples int) *episodes { return &episodes{of: make([]int32, samples)} }

// find finds the episodes of tr. It orders them by their first step, and then by environment. Samples with mask 0
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

// divide divides the episodes into groups. A group is size neighbouring environments, whose episodes begin at the same
// step. If envs is 0, the episodes are texts, and size successive texts are a group. A group is smaller if some of its
// episodes were lost. divide returns an error if an episode begins while another one is running.
func (e *episodes) divide(size, envs int) error {
	e.group = e.group[:0]
	for k := range e.score {
		at, before := k, k-1
		if envs > 0 {
			if at = int(e.first[k]); k > 0 {
				before = int(e.first[k-1])
			}
			if t := at / envs; t > 0 && t != before/envs && e.running(t, envs) {
				return fmt.Errorf("episode %d begins at step %d of environment %d: episodes of a group of %d must "+
					"begin together, as without auto_reset", k, t, at%envs, size)
			}
		}
		if k > 0 && before/size == at/size {
			e.group = append(e.group, e.group[k-1])
		} else {
			e.group = append(e.group, int32(k))
		}
	}
	return nil
}

// running reports whether any environment has an episode that began before step t and goes on after it.
func (e *episodes) running(t, envs int) bool {
	for i := t * envs; i < (t+1)*envs; i++ {
		if e.of[i] >= 0 && e.of[i] == e.of[i-envs] {
			return true
		}
	}
	return false
}

// groupOf returns the scores of the group that episode k belongs to.
func (e *episodes) groupOf(k int) []float64 {
	lo, hi := int(e.group[k]), k+1
	for hi < len(e.group) && int(e.group[hi]) == lo {
		hi++
	}
	return e.score[lo:hi]
}

func mean[F float32 | float64](x []F) float64 {
	var sum float64
	for _, v := range x {
		sum += float64(v)
	}
	return sum / float64(len(x))
}
