package plan

import "fmt"

// stageOrder is the order of the components through which answers pass.
var stageOrder = [...]string{"rollout", "reward", "inference", "critic", "actor"}

// placeAnswers places the component rollout on the actors' ranks if it has no place, and checks that the prompts of
// an iteration can be divided among the workers.
func (d *Draft) placeAnswers() {
	if !d.Placement.Has("rollout") {
		d.Placement.Add("rollout", d.Placement.Ranks("actor"))
	}
	d.rollouts, d.Rewards, d.Inferences = d.Workers("rollout"), d.Workers("reward"), d.Workers("inference")
	d.Critics = d.Workers("critic")
	c := d.Config
	n, stages := c.Data.RolloutBatchSize, c.Rollout.PipelineStageNum
	if n <= 0 || stages <= 0 {
		return // the mistake is reported
	}
	d.found.Want(n%d.Actors == 0, "data.rollout_batch_size", n, fmt.Sprintf("a multiple of %d actors", d.Actors))
	for _, of := range stageOrder {
		if w := d.Workers(of); w > n {
			d.found.Problem("data.rollout_batch_size", n, fmt.Sprintf("at least %d, a prompt for each %s worker", w,
				of))
		}
	}
	if a := &c.Algorithm; d.Inferences > 0 {
		d.found.Want(a.RecomputeLogprobs || d.NeedsReference(), "cluster.component_placement.inference", nil,
			"no such component without algorithm.recompute_logprobs, kl_beta or reinpp_kl_beta, which it computes for")
	}
	if d.Critics > 0 {
		d.placeCritic(n)
	}
	if least := n / d.rollouts; least > 0 {
		d.found.Want(stages <= least, "rollout.pipeline_stage_num", stages,
			fmt.Sprintf("at most %d (%d prompts of %d rollout workers)", least, n, d.rollouts))
	}
}

// placeCritic checks that critic workers have work in this job, and that n prompts can be divided among them.
func (d *Draft) placeCritic(n int) {
	const key = "cluster.component_placement.critic"
	d.found.Want(d.HasCritic(), key, nil, "no such component without algorithm.loss_type actor_critic, with adv_type "+
		"gae: there is no critic")
	d.found.Want(n%d.Critics == 0, "data.rollout_batch_size", n, fmt.Sprintf("a multiple of %d critic workers",
		d.Critics))
	early := d.Config.Algorithm.Texts.EarlyStopImpRatio
	d.found.Want(early == 0, "algorithm.early_stop_imp_ratio", early, "0 with "+key+": only actors know the ratio")
}

// pipeline returns the pipeline of this placement.
func (d *Draft) pipeline() Pipeline {
	p := Pipeline{Groups: d.Config.Data.RolloutBatchSize, Rounds: d.Config.Rollout.PipelineStageNum}
	for _, of := range stageOrder {
		if w := d.Workers(of); w > 0 {
			p.Stages = append(p.Stages, PipelineStage{of, w})
		}
	}
	return p
}

// ExchangesGroups reports whether the workers of a component exchange groups so that all workers have about as many
// tokens. The component must be one that trains.
func (p *Plan) ExchangesGroups(component string) bool {
	return p.Config.Reasons() && p.Config.Actor.EnableDPLoadBalance && len(p.Placement.Ranks(component)) > 1
}

// RewardComponent returns the component whose workers grade answers.
func (p *Plan) RewardComponent() string {
	switch {
	case p.Rewards > 0:
		return "reward"
	case p.Critics > 0:
		return "critic"
	}
	return "actor"
}

// NeedsReference reports whether training needs a copy of the initial policy, for a KL penalty.
func (p *Plan) NeedsReference() bool {
	return p.Config.Algorithm.KLBeta != 0 || p.Config.Algorithm.ReinppKLBeta != 0
}

// HasCritic reports whether a critic of answers is trained. Critic workers train it; without critic workers the
// actors do.
func (p *Plan) HasCritic() bool {
	return p.Config.Reasons() && p.Config.Algorithm.LossType == "actor_critic"
}
