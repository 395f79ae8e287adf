package plan

import (
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/tensor"
)

// tryReward makes the rule of reward workers without reading files, to check that it fits the environments.
func (d *Draft) tryReward() {
	if d.Rewards == 0 && !d.Config.Standalone() || !d.Config.Trains() {
		return
	}
	var err error
	if _, images := d.Config.Reward.Images(); images && d.Config.Reward.UseRewardModel {
		err = d.tryClassifier()
	} else if d.Config.Reward.UseRewardModel {
		_, err = d.newRewardNetwork()
	} else {
		_, err = d.NewRule(1)
	}
	if err != nil {
		d.found.Problem("reward", nil, "a reward that fits: "+err.Error())
	}
}

// tryClassifier returns an error unless the environments have images for the classifier.
func (d *Draft) tryClassifier() error {
	camera, err := reward.ClassifierInputOf(d.Spec)
	if err != nil {
		return err
	}
	memory := job.Reserve{Have: job.Available{Free: math.MaxInt64}}
	defer memory.Free()
	net, err := d.Config.Reward.NewClassifier(camera, memory.Alloc)
	if err == nil {
		params := 4 * int64(net.Params().Len())
		d.scorerBytes = func(rows int) int64 { return params + net.WorkBytes(rows) }
	}
	return err
}

// NewScorer makes the classifier of reward.model for at most rows images, and reads its parameters.
func (p *Plan) NewScorer(rows int) (*reward.Scorer, error) {
	c := &p.Config.Reward
	camera, err := reward.ClassifierInputOf(p.Spec)
	if err != nil {
		return nil, err
	}
	net, err := c.NewClassifier(camera, tensor.Heap)
	if err != nil {
		return nil, err
	}
	d, err := job.ReadWeights("reward.model.model_path", c.Model.ModelPath)
	if err != nil {
		return nil, err
	}
	if err := net.Load(d, true); err != nil {
		return nil, fmt.Errorf("reward.model.model_path: %s: %w", c.Model.ModelPath, err)
	}
	return reward.NewScorer(c, net, camera, rows), nil
}

// CheckFiles returns an error if a reward worker of the rank cannot read the parameters of its network. CheckFiles can
// fail on some ranks and not on others.
func (p *Plan) CheckFiles(rank int) error {
	if p.Config.Standalone() && p.On("env", rank) {
		_, err := p.NewScorer(1)
		return err
	}
	if p.Rewards == 0 || !p.On("reward", rank) {
		return nil
	}
	_, err := p.NewRule(1)
	return err
}

// NewRule makes the rule of a reward worker. rows is the maximum number of transitions in a call of the rule.
func (p *Plan) NewRule(rows int) (reward.Rule, error) {
	s := reward.Setup{Config: p.Config.Reward, Spec: p.Spec, Gamma: p.Config.Algorithm.Gamma,
		BootstrapAlways: p.BootstrapAll, Rows: rows}
	if _, images := s.Config.Images(); images && s.Config.UseRewardModel {
		var err error
		if s.Scorer, err = p.NewScorer(rows); err != nil {
			return nil, err
		}
	} else if s.Config.UseRewardModel {
		net, err := p.newRewardNetwork()
		if err != nil {
			return nil, err
		}
		d, err := job.ReadWeights("reward.model.model_path", s.Config.Model.ModelPath)
		if err != nil {
			return nil, err
		}
		if err := job.LoadModel(net.Params(), d); err != nil {
			return nil, fmt.Errorf("reward.model.model_path: %s: %w", s.Config.Model.ModelPath, err)
		}
		s.Network = net
	}
	return p.Registries.Rewards.New(s)
}

// newRewardNetwork makes the network of a reward worker without its parameters, which come from a file.
func (p *Plan) newRewardNetwork() (policy.Policy, error) {
	cfg := p.Config.Reward.Model.Config
	cfg.Blank = true
	return p.newPolicy(cfg, tensor.Heap)
}

// RewardWorker returns the reward worker that scores the steps of route l.
func (p *Plan) RewardWorker(l Route) int { return l.Lo * p.Rewards / p.Train.Envs }

// TransitionLayout returns the layout of the transitions of one step of route l. A rollout worker sends them to a
// reward worker. Observations before the step are those that the policy sees.
func (p *Plan) TransitionLayout(l Route) *tensor.Layout {
	n := l.Hi - l.Lo
	seen, _ := p.Config.PolicySpec(p.Spec)
	fs := append(slices.Concat(play.ObservationFields(algo.Observations, seen, n),
		play.ObservationFields(algo.NextObservations, p.Spec, n)),
		tensor.Field{Name: algo.FieldAction, DType: p.Spec.Action.DType, Shape: []int{n, p.Chunks,
			p.Spec.Action.Dim()}},
		tensor.Field{Name: algo.FieldReward, DType: tensor.F32, Shape: []int{n}},
		tensor.Field{Name: algo.FieldTerminated, DType: tensor.U8, Shape: []int{n}},
		tensor.Field{Name: algo.FieldTruncated, DType: tensor.U8, Shape: []int{n}},
	)
	if infos := len(p.Spec.Info); infos > 0 {
		rows := p.Chunks * p.Spec.Repeats()
		fs = append(fs, tensor.Field{Name: algo.FieldInfo, DType: tensor.F32, Shape: []int{n, infos}},
			tensor.Field{Name: algo.FieldInfos, DType: tensor.F32, Shape: []int{n, rows, infos}})
	}
	return tensor.NewLayout(fs...)
}

// Transitions returns the tensors of d as a reward.Batch. d has the layout of TransitionLayout.
func Transitions(d tensor.Dict) reward.Batch {
	info, _ := d.Get(algo.FieldInfo)
	infos, _ := d.Get(algo.FieldInfos)
	return reward.Batch{Obs: d.Sub(algo.Observations), Next: d.Sub(algo.NextObservations),
		Action: d.Must(algo.FieldAction), Reward: d.Must(algo.FieldReward).F32(),
		Terminated: d.Must(algo.FieldTerminated).U8(), Truncated: d.Must(algo.FieldTruncated).U8(), Info: info,
		Infos: infos}
}

// RewardLayout returns the layout of the reward worker's answer.
func (p *Plan) RewardLayout(l Route) *tensor.Layout {
	return tensor.NewLayout(tensor.Field{Name: algo.FieldReward, DType: tensor.F32, Shape: []int{l.Hi - l.Lo}})
}

// RewardPairs returns the pairs (sender, receiver) that exchange transitions, and then the pairs that exchange rewards.
func (p *Plan) RewardPairs() (asks, answers map[[2]int]bool) {
	asks, answers = map[[2]int]bool{}, map[[2]int]bool{}
	for _, l := range p.Train.Routes {
		w := p.RewardWorker(l)
		asks[[2]int{l.Rollout, w}] = true
		answers[[2]int{w, l.Rollout}] = true
	}
	return asks, answers
}
