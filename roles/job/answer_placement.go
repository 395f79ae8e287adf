package job

import (
	"fmt"
	"slices"
)

// textHops are the components on the way of answers, in its order.
var textHops = [...]string{"rollout", "reward", "inference", "critic", "actor"}

// placeAnswers places rollout on the ranks of the actors where it has no place of its own, and checks
// that the prompts of an iteration divide over the workers.
func (d *draft) placeAnswers() {
	if !d.Placement.Has("rollout") {
		d.Placement.Add("rollout", d.Placement.Ranks("actor"))
	}
	d.rollouts, d.Rewards, d.Inferences = d.workers("rollout"), d.workers("reward"), d.workers("inference")
	d.Critics = d.workers("critic")
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

// placeCritic checks that critic workers have something to do with n prompts, and nothing that they cannot.
func (d *draft) placeCritic(n int) {
	const key = "cluster.component_placement.critic"
	d.found.Want(d.HasCritic(), key, nil, "no such component without algorithm.loss_type actor_critic, with adv_type "+
		"gae: there is no critic")
	d.found.Want(n%d.Critics == 0, "data.rollout_batch_size", n, fmt.Sprintf("a multiple of %d critic workers",
		d.Critics))
	early := d.Config.Algorithm.Texts.EarlyStopImpRatio
	d.found.Want(early == 0, "algorithm.early_stop_imp_ratio", early, "0 with "+key+": only actors know the ratio")
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
	return slices.Contains(j.Placement.Ranks(component), rank)
}

// TradesGroups reports whether the workers of a component that trains trade groups of answers, so that
// all have about as many tokens.
func (j *Job) TradesGroups(component string) bool {
	return j.Config.Reasons() && j.Config.Actor.EnableDPLoadBalance && len(j.Placement.Ranks(component)) > 1
}

// Judges returns the component that says what answers are worth.
func (j *Job) Judges() string {
	switch {
	case j.Rewards > 0:
		return "reward"
	case j.Critics > 0:
		return "critic"
	}
	return "actor"
}

// NeedsReference reports whether a language model is held to what it was before the first step.
func (j *Job) NeedsReference() bool {
	return j.Config.Algorithm.KLBeta != 0 || j.Config.Algorithm.ReinppKLBeta != 0
}

// HasCritic reports whether a critic of answers is trained: by critic workers, or without any by the
// actors.
func (j *Job) HasCritic() bool {
	return j.Config.Reasons() && j.Config.Algorithm.LossType == "actor_critic"
}
