package algo

// NewReinforce makes REINFORCE++, Hu 2025, arXiv:2501.03262: PPO's clipped surrogate, without a
// critic and (except with use_reinpp_baseline) without groups. Its details, beside those of PPO:
//
//  1. the score of an episode is the return of all its steps                 Reinforce
//  2. less the mean score of its group, with use_reinpp_baseline             reinforce.estimate
//  3. less a penalty for every step that leaves the first policy             Reinforce
//  4. advantages normalised over the samples of all replicas                 advantages.standardise
func NewReinforce(s Setup) (*PPO, error) {
	e := reinforce{newGroups(s), s.Config.UseReinppBaseline, float64(s.Config.ReinppKLBeta)}
	return newPPO(s, recipe{"reinpp", e, NormalizeBatch})
}

// reinforce is the estimator of adv_type reinpp. The return includes the penalty, but not the
// baseline.
type reinforce struct {
	groups
	baseline bool
	beta     float64 // of the penalty
}

func (r reinforce) estimate(adv, ret []float32, x *experience) error {
	if err := r.settle(x); err != nil {
		return err
	}
	e := x.Episodes
	Reinforce(ret, e.of, e.score, x.LogRatio, r.beta, x.N)
	e.relative = append(e.relative[:0], e.score...)
	for k := range e.relative {
		e.relative[k] = 0
		if r.baseline {
			e.relative[k] = mean(e.groupOf(k, r.size))
		}
	}
	for i, k := range e.of {
		adv[i] = 0
		if k >= 0 {
			adv[i] = float32(float64(ret[i]) - e.relative[k])
		}
	}
	return nil
}

// Reinforce fills ret with the returns of REINFORCE++ (Hu 2025, eq. 5 and 6), in a rollout of n
// environments. For sample i of episode k with score[k]
//
//	ret_i = score_k - β Σ_{j ≥ i} (log π(a_j) - log π_ref(a_j))
//
// where the sum is over the episode's samples from i on. of[i] is k, or -1 for a sample of no
// episode, which gets 0. logRatio has the differences of log-probs; nil: there is no penalty.
func Reinforce(ret []float32, of []int32, score []float64, logRatio []float32, beta float64, n int) {
	for i := len(ret) - 1; i >= 0; i-- {
		k := of[i]
		if k < 0 {
			ret[i] = 0
			continue
		}
		r := score[k]
		if next := i + n; next < len(ret) && of[next] == k {
			r = float64(ret[next])
		}
		if logRatio != nil {
			r -= beta * float64(logRatio[i])
		}
		ret[i] = float32(r)
	}
}
