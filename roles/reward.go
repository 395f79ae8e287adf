package roles

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/tensor"
)

// tryReward makes what reward workers compute, as far as no file must be read, to see that it fits
// the environments.
func (d *draft) tryReward() {
	if d.rewards == 0 || !d.cfg.Trains() {
		return
	}
	var err error
	if d.cfg.Reward.UseRewardModel {
		_, err = d.newRewardNetwork()
	} else {
		_, err = d.newRule(1)
	}
	if err != nil {
		d.problem("reward", nil, "a reward that fits: "+err.Error())
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
