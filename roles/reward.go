package roles

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/tensor"
)

// checkReward checks the section reward against the placement and the environments, which have been
// found to do; Validate returns what it finds.
func (j *job) checkReward() {
	c := j.cfg
	section := &c.Reward
	if j.rewards == 0 {
		asks := section.UseRewardModel || section.RewardType != reward.DefaultConfig().RewardType
		c.check.Want(!asks || !c.Trains(), "cluster.component_placement", nil,
			"a place for reward, as 0 or all (the section reward asks for it)")
		return
	}
	if c.actionRewards() {
		c.Problem("algorithm.reward_type", c.Algorithm.RewardType, "chunk_level (the component reward says what "+
			"whole chunks are worth)")
	}
	section.Check(c.check.At("reward").Want)
	if c.check.Err() != nil {
		return
	}
	var err error
	if section.UseRewardModel {
		_, err = j.newRewardNetwork()
	} else {
		_, err = j.newRule(1)
	}
	if err != nil {
		c.Problem("reward", nil, "a reward that fits: "+err.Error())
	}
}

// checkRewardModel returns an error where a reward worker of this rank could not read its network's
// parameters. What it finds differs from rank to rank.
func (j *job) checkRewardModel(rank int) error {
	if j.rewards == 0 || !slices.Contains(j.place.Group("reward").Ranks, rank) {
		return nil
	}
	_, err := j.newRule(1)
	return err
}

// newRule makes what a reward worker computes, for at most so many transitions at once.
func (j *job) newRule(rows int) (reward.Rule, error) {
	s := reward.Setup{Config: j.cfg.Reward, Spec: j.spec, Gamma: j.cfg.Algorithm.Gamma, Rows: rows}
	if s.Config.UseRewardModel {
		net, err := j.newRewardNetwork()
		if err != nil {
			return nil, err
		}
		d, err := readWeights("reward.model.model_path", s.Config.Model.ModelPath)
		if err != nil {
			return nil, err
		}
		if err := loadModel(net.Params(), d); err != nil {
			return nil, fmt.Errorf("reward.model.model_path: %s: %w", s.Config.Model.ModelPath, err)
		}
		s.Network = net
	}
	return j.reg.Rewards.New(s)
}

func (j *job) newRewardNetwork() (policy.Policy, error) {
	return j.reg.Policies.New(j.cfg.Reward.Model.Config, j.spec, j.cfg.Actor.Seed, tensor.Heap)
}

// rewardWorker returns the reward worker that scores the steps of l.
func (j *job) rewardWorker(l lane) int { return l.lo * j.rewards / j.train.envs }

// transitionLayout is what a rollout worker sends to a reward worker of a step of l.
func (j *job) transitionLayout(l lane) *tensor.Layout {
	n := l.hi - l.lo
	var fs []tensor.Field
	for _, prefix := range []string{"observation.", "next_observation."} {
		for _, f := range j.spec.Obs {
			fs = append(fs, tensor.Field{Name: prefix + f.Name, DType: f.DType, Shape: append([]int{n}, f.Shape...)})
		}
	}
	fs = append(fs,
		tensor.Field{Name: "action", DType: j.spec.Action.DType, Shape: []int{n, j.chunks, j.spec.Action.Dim()}},
		tensor.Field{Name: "reward", DType: tensor.F32, Shape: []int{n}},
		tensor.Field{Name: "terminated", DType: tensor.U8, Shape: []int{n}},
		tensor.Field{Name: "truncated", DType: tensor.U8, Shape: []int{n}},
	)
	if infos := len(j.spec.Info); infos > 0 {
		fs = append(fs, tensor.Field{Name: "info", DType: tensor.F32, Shape: []int{n, infos}})
	}
	return tensor.NewLayout(fs...)
}

// rewardLayout is the answer.
func (j *job) rewardLayout(l lane) *tensor.Layout {
	return tensor.NewLayout(tensor.Field{Name: "reward", DType: tensor.F32, Shape: []int{l.hi - l.lo}})
}

// rewardPairs returns who asks for rewards and who answers, as pairs of producer and consumer.
func (j *job) rewardPairs() (asks, answers map[[2]int]bool) {
	asks, answers = map[[2]int]bool{}, map[[2]int]bool{}
	for _, l := range j.train.lanes {
		w := j.rewardWorker(l)
		asks[[2]int{l.rollout, w}] = true
		answers[[2]int{w, l.rollout}] = true
	}
	return asks, answers
}
