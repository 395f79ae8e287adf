package job

import (
	"fmt"
	"slices"
)

// textHops are the components on the way of answers, in its order.
var textHops = [...]string{"rollout", "reward", "inference", "actor"}

// placeAnswers places rollout on the ranks of the actors where it has no place of its own, and checks
// that the prompts of an iteration divide over the workers.
func (d *draft) placeAnswers() {
	if !d.Placement.Has("rollout") {
		d.Placement.Add("rollout", d.Placement.Group("actor").Ranks)
	}
	d.rollouts, d.Rewards, d.Inferences = d.workers("rollout"), d.workers("reward"), d.workers("inference")
	c := d.Config
	n, stages := c.Data.RolloutBatchSize, c.Rollout.PipelineStageNum
	if n <= 0 || stages <= 0 {
		return // reported
	}
	d.found.Want(n%d.Actors == 0, "data.rollout_batch_size", n, fmt.Sprintf("a multiple of %d actors", d.Actors))
	for _, of := range textHops {
		if w := d.workers(of); w > n {
			d.problem("data.rollout_batch_size", n, fmt.Sprintf("at least %d, a prompt for each %s worker", w, of))
		}
	}
	if a := &c.Algorithm; d.Inferences > 0 {
		d.found.Want(a.RecomputeLogprobs || d.NeedsReference(), "cluster.component_placement.inference", nil,
			"no such component without algorithm.recompute_logprobs, kl_beta or reinpp_kl_beta: it computes nothing")
	}
	if least := n / d.rollouts; least > 0 {
		d.found.Want(stages <= least, "rollout.pipeline_stage_num", stages,
			fmt.Sprintf("at most %d (%d prompts of %d rollout workers)", least, n, d.rollouts))
	}
}

// textPlan says which workers have which groups.
func (d *draft) textPlan() TextPlan {
	p := TextPlan{Groups: d.Config.Data.RolloutBatchSize, Stages: d.Config.Rollout.PipelineStageNum}
	for _, of := range textHops {
		if w := d.workers(of); w > 0 {
			p.Hops = append(p.Hops, TextHop{of, w})
		}
	}
	return p
}

// On reports whether a component has workers on a rank.
func (j *Job) On(component string, rank int) bool {
	return j.Placement.Has(component) && slices.Contains(j.Placement.Group(component).Ranks, rank)
}

// TradesGroups reports whether actors trade groups of answers, so that all have about as many tokens.
func (j *Job) TradesGroups() bool {
	return j.Config.Reasons() && j.Config.Actor.EnableDPLoadBalance && j.Actors > 1
}

// NeedsReference reports whether a language model is held to what it was before the first step.
func (j *Job) NeedsReference() bool {
	return j.Config.Algorithm.KLBeta != 0 || j.Config.Algorithm.ReinppKLBeta != 0
}

// HasCritic reports whether the actors train a critic of texts.
func (j *Job) HasCritic() bool {
	return j.Config.Reasons() && j.Config.Algorithm.LossType == "actor_critic"
}
