package algo

// NewReinforce makes REINFORCE++, Hu 2025, arXiv:2501.03262: PPO's clipped surrogate without a critic. It also has no
// groups, unless use_reinpp_baseline is set. It differs from PPO in these details. Each line ends with the function
// that computes it:
//
//  1. the score of an episode is the return of all its steps                 Reinforce
//  2. minus the mean score of its group, with use_reinpp_baseline            reinforce
//  3. minus a penalty on log π/π_ref for every step                          Reinforce
//  4. advantages normalised over the samples of all replicas                 advantages.standardise
func NewReinforce(s Setup) (*PPO, error) {
	e := reinforce(newGroups(s), s.Config.UseReinppBaseline, float64(s.Config.ReinppKLBeta))
	return newPPO(s, recipe{"reinpp", e, NormalizeBatch})
}

// reinforceKeys declares the keys of NewReinforce.
func reinforceKeys(s *Setup, k *Keys) {
	groupKeys(s, k)
	k.Read("use_reinpp_baseline", "reinpp_kl_beta")
	updateKeys(s, k)
}

// reinforce returns the estimator of adv_type reinpp. If baseline is set, the estimator subtracts the mean score of the
// group from the advantages. The returns include the penalty of weight beta, but not the baseline.
func reinforce(g groups, baseline bool, beta float64) estimator {
	return func(adv, ret []float32, x *experience) error {
		if err := g.settle(x); err != nil {
			return err
		}
		e := x.Episodes
		Reinforce(ret, e.of, e.score, x.LogRatio, beta, x.N)
		e.relative = e.relative[:0]
		for k := range e.score {
			subtract := 0.0
			if baseline {
				subtract = mean(e.groupOf(k))
			}
			e.relative = append(e.relative, subtract)
		}
		for i, k := range e.of {
			adv[i] = 0
			if k >= 0 {
				adv[i] = float32(float64(ret[i]) - e.relative[k])
			}
		}
		return nil
	}
}

// Reinforce fills ret with the returns of REINFORCE++ (Hu 2025, eq. 5 and 6), in a rollout of n environments. For
// sample i of episode k with score[k],
//
//	ret_i = score_k - β Σ_{j ≥ i} (log π(a_j) - log π_ref(a_j))
//
// where the sum is over the episode's samples from i on. episodeOf[i] is k. It is -1 for a sample that belongs to no
// episode, and the return of this sample is 0. logRatio has the differences of log-probs; nil means no penalty.
func Reinforce(ret []float32, episodeOf []int32, score []float64, logRatio []float32, beta float64, n int) {
	for i := len(ret) - 1; i >= 0; i-- {
		k := episodeOf[i]
		if k < 0 {
			ret[i] = 0
			continue
		}
		r := score[k]
		if next := i + n; next < len(ret) && episodeOf[next] == k {
			r = float64(ret[next])
		}
		if logRatio != nil {
			r -= beta * float64(logRatio[i])
		}
		ret[i] = float32(r)
	}
}
