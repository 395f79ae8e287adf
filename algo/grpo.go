package algo

import (
	"fmt"
	"math"

	"github.com/rlinf/rlinf/tensor"
)

// GRPO is group relative policy optimisation, Shao et al. 2024, arXiv:2402.03300: PPO's clipped surrogate with
// advantages that need no critic. The environments of a group begin with the same state, and each episode is compared
// with the other episodes of its group. GRPO differs from PPO in these details:
//
//  1. one advantage for all steps of an episode, normalised within its group         GRPOAdvantages
//  2. weight 0 for idle environments, and for groups outside the reward bounds       groups.drops
//     a lost episode leaves its group, and weight 0 if only one episode is left      episodes.divide
//  3. equal weights for all steps, or for all episodes                               episodes.spread
//  4. groups whose scores are all equal are replaced, or get weight 0                DynamicSampler
//  5. a penalty on the divergence from the reference policy                          KLLoss
//
// DAPO, Yu et al. 2025, arXiv:2503.14476, is GRPO with clip_ratio_high > clip_ratio_low,
// max_num_gen_batches > 1, loss_agg_func token-mean and len_reward_penalty > 0 (Overlong).
//
// The metrics are those of PPO. With max_num_gen_batches > 1, GRPO adds rollout/gen_batches, the number of rollouts
// made for the update.
type GRPO struct {
	*PPO
	*DynamicSampler
}

var (
	_ Algorithm = (*GRPO)(nil)
	_ Resampler = (*GRPO)(nil)
)

// NewGRPO makes GRPO.
func NewGRPO(s Setup) (*GRPO, error) {
	p, err := newPPO(s, recipe{"grpo", groupRelative(newGroups(s), GRPOAdvantages), NormalizeNone}) // per group instead
	if err != nil {
		return nil, err
	}
	return &GRPO{PPO: p, DynamicSampler: newDynamicSampler(&s, p.advantages.rolloutView, p.replicas)}, nil
}

// grpoKeys declares the keys of NewGRPO.
func grpoKeys(s *Setup, k *Keys) {
	groupKeys(s, k)
	k.Read("max_num_gen_batches")
	updateKeys(s, k)
}

// Update trains on a prepared rollout; see Algorithm.
func (g *GRPO) Update(rollout tensor.Dict) (Metrics, error) {
	m, err := g.PPO.Update(rollout)
	if err == nil && g.most > 1 {
		m.add("rollout/gen_batches", float64(g.rollouts))
	}
	return m, err
}

// groups tells how to compare episodes. A group is size successive environments, or size successive texts.
type groups struct {
	size         int
	envs         int  // number of environments; 0 if the episodes are texts
	compared     bool // drop an episode that is alone in its group, because the others were lost
	informative  bool // drop groups whose scores are all equal
	filter       bool // drop groups whose mean score is not within [lower, upper]
	lower, upper float64
	overlong     Overlong
}

func newGroups(s Setup) groups {
	c := &s.Config
	return groups{
		size: max(s.GroupSize, 1), envs: s.Envs,
		compared: c.AdvType != "reinpp" || c.UseReinppBaseline, informative: c.MaxNumGenBatches > 1,
		filter: c.FilterRewards, lower: float64(c.RewardsLowerBound), upper: float64(c.RewardsUpperBound),
		overlong: Overlong{float64(c.LenRewardPenalty), c.SafeLength, c.MaxLength},
	}
}

// groupKeys declares the keys of newGroups.
func groupKeys(s *Setup, k *Keys) {
	k.Read("filter_rewards", "len_reward_penalty")
	k.ReadIf(s.Config.FilterRewards, "filter_rewards", "rewards_lower_bound", "rewards_upper_bound")
	k.ReadIf(s.Config.LenRewardPenalty > 0, "len_reward_penalty > 0", "safe_length", "max_length")
}

// settle finds the groups of x. It gives weight 0 to the groups that g drops, and lowers the scores of long episodes.
// It returns an error if the episodes cannot be compared.
func (g *groups) settle(x *experience) error {
	e := x.Episodes
	if g.envs%g.size != 0 {
		return fmt.Errorf("%d environments on each replica: expected a multiple of the group_size %d", g.envs, g.size)
	}
	if err := e.divide(g.size, g.envs); err != nil {
		return err
	}
	for i, k := range e.of {
		if k >= 0 && g.drops(e.groupOf(int(k))) {
			x.Weight[i] = 0
		}
	}
	for k, n := range e.steps {
		e.score[k] += g.overlong.Penalty(n)
	}
	return nil
}

// drops reports whether g leaves a group of episodes with these scores out of training.
func (g *groups) drops(score []float64) bool {
	switch {
	case g.compared && g.size > 1 && len(score) == 1, g.informative && !differ(score):
		return true
	case g.filter:
		m := mean(score)
		return m < g.lower || m > g.upper
	}
	return false
}

// groupRelative returns an estimator that compares the episodes of each group. The return of a sample is the score of
// its episode. The argument comparison turns the scores of groups into advantages, in place.
func groupRelative(g groups, comparison func(score []float64, size int)) estimator {
	return func(adv, ret []float32, x *experience) error {
		if err := g.settle(x); err != nil {
			return err
		}
		e := x.Episodes
		e.relative = append(e.relative[:0], e.score...)
		for k, n := 0, 0; k < len(e.score); k += n {
			n = len(e.groupOf(k))
			comparison(e.relative[k:k+n], n)
		}
		for i, k := range e.of {
			adv[i], ret[i] = 0, 0
			if k >= 0 {
				adv[i], ret[i] = float32(e.relative[k]), float32(e.score[k])
			}
		}
		return nil
	}
}

// An Overlong lowers the score of long episodes (soft overlong punishment of DAPO, Yu et al. 2025,
// arXiv:2503.14476, eq. 13, where Safe is L_max - L_cache). An episode of n steps gets
//
//	penalty = -Weight · min(max((n - Safe) / (Max - Safe), 0), 1)
//
// The penalty is 0 up to Safe steps, and -Weight from Max steps on.
type Overlong struct {
	Weight    float64 // 0 means no penalty
	Safe, Max int
}

// Penalty returns the penalty of an episode of n steps. It is at most 0, and the caller adds it to the score.
func (o Overlong) Penalty(n int) float64 {
	if o.Weight == 0 {
		return 0
	}
	return -o.Weight * min(max(float64(n-o.Safe)/float64(o.Max-o.Safe), 0), 1)
}

// groupEps is added to the deviation of a group, as in RLinf.
const groupEps = 1e-6

// GRPOAdvantages replaces the scores of episodes by advantages, in place. Each run of size successive episodes is a
// group (Shao et al. 2024, §4.1.2):
//
//	A_i = (s_i - mean s) / (std s + 1e-6)
//
// std is the unbiased deviation. The advantages of a group are 0 if all of its scores are equal, or
// if it has only one score.
func GRPOAdvantages(score []float64, size int) {
	eachGroup(score, size, func(group []float64) {
		m := mean(group)
		var sq float64
		for _, s := range group {
			sq += (s - m) * (s - m)
		}
		std := math.Sqrt(sq / float64(max(size-1, 1)))
		for i, s := range group {
			group[i] = (s - m) / (std + groupEps)
		}
	})
}

// DrGRPOAdvantages is GRPOAdvantages without the deviation (Dr. GRPO, Liu et al. 2025, arXiv:2503.20783), so that
// groups with close scores have no more weight than others:
//
//	A_i = s_i - mean s
func DrGRPOAdvantages(score []float64, size int) {
	eachGroup(score, size, func(group []float64) {
		m := mean(group)
		for i, s := range group {
			group[i] = s - m
		}
	})
}

// RLOOAdvantages replaces each score by its difference from the mean of the other scores in its group (REINFORCE
// leave-one-out, Ahmadian et al. 2024, arXiv:2402.14740, §3.2). In a group of one, the advantage is 0:
//
//	A_i = s_i - Σ_{j≠i} s_j / (n-1)
func RLOOAdvantages(score []float64, size int) {
	eachGroup(score, size, func(group []float64) {
		m, n := mean(group), float64(size)
		for i, s := range group {
			group[i] = (s - m) * n / max(n-1, 1)
		}
	})
}

// eachGroup calls f with each group of size successive scores.
func eachGroup(score []float64, size int, f func(group []float64)) {
	if size <= 0 || len(score)%size != 0 {
		panic("algo: episodes that do not make groups")
	}
	for ; len(score) > 0; score = score[size:] {
		f(score[:size])
	}
}
