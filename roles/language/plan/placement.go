package plan

import (
	"fmt"

	"github.com/rlinf/rlinf/roles/language/deal"
)

// stageOrder is the order of the components through which answers pass.
var stageOrder = [...]string{"rollout", "reward", "inference", "critic", "actor"}

// placeAnswers checks that the prompts of an iteration can be divided among the replicas of each component.
func (d *Draft) placeAnswers() {
	c := d.Config
	n, stages := c.Data.RolloutBatchSize, c.Rollout.PipelineStageNum
	if n <= 0 || stages <= 0 {
		return // the mistake is reported
	}
	d.found.Want(n%d.Actors == 0, "data.rollout_batch_size", n, "a multiple of "+d.replicas("actor"))
	for _, of := range stageOrder {
		if w := d.Replicas(of); w > n {
			d.found.Problem("data.rollout_batch_size", n, fmt.Sprintf("at least %d, a prompt for each %s %s", w, of,
				unit(d.Mesh(of))))
		}
	}
	if a := &c.Algorithm; d.Replicas("inference") > 0 {
		d.found.Want(a.RecomputeLogprobs || d.NeedsReference(), "cluster.component_placement.inference", nil,
			"no such component without algorithm.recompute_logprobs, kl_beta or reinpp_kl_beta, which it computes for")
	}
	if d.Replicas("critic") > 0 {
		d.placeCritic(n)
	}
	if least := n / d.Replicas("rollout"); least > 0 && !d.Config.Deals() {
		d.found.Want(stages <= least, "rollout.pipeline_stage_num", stages,
			fmt.Sprintf("at most %d (%d prompts of %s)", least, n, d.replicas("rollout")))
	}
}

// placeCritic checks that critic workers have work in this job, and that n prompts can be divided among them.
func (d *Draft) placeCritic(n int) {
	const key = "cluster.component_placement.critic"
	d.found.Want(d.HasCritic(), key, nil, "no such component without algorithm.loss_type actor_critic, with adv_type "+
		"gae: there is no critic")
	d.found.Want(n%d.Replicas("critic") == 0, "data.rollout_batch_size", n, "a multiple of "+d.replicas("critic"))
	early := d.Config.Algorithm.Texts.EarlyStopImpRatio
	d.found.Want(early == 0, "algorithm.early_stop_imp_ratio", early, "0 with "+key+": only actors know the ratio")
}

// pipeline returns the pipeline of this placement.
func (d *Draft) pipeline() Pipeline {
	c := d.Config
	p := Pipeline{Groups: c.Data.RolloutBatchSize, Rounds: c.Rollout.PipelineStageNum, Dealt: c.Deals()}
	for _, of := range stageOrder {
		if n := d.Replicas(of); n > 0 {
			p.Stages = append(p.Stages, PipelineStage{of, d.Mesh(of), n})
		}
	}
	return p
}

// Costs of an engine. The unit is the cost of a token in a pass with one text. BenchmarkSpeed of package engine
// measures the fixed cost of a pass, and the cost of a token in a long pass. BenchmarkMoved of package worker measures
// the cost of a token whose keys and values move.
const (
	passCost    = 2
	contextCost = 0.5
	movedCost   = 0.05
)

// Table returns the deal.Common of a batch. prompt is any prompt of the batch, and its length stands for all lengths.
// mean is the mean length of the answers in the previous batch, or 0 if it is not known.
func (p *Plan) Table(prompt []int32, mean int) deal.Common {
	if mean == 0 {
		mean = max(1, p.Sampling.MaxTokens/8)
	}
	cached := 0 // the members of a divided model recompute the cache
	if p.Mesh("rollout").Tensor == 1 {
		cached = 4 * deal.MostCache / p.cacheBytes()
	}
	return deal.Common{Prompts: p.Pipeline.Groups, Players: p.Replicas("rollout"), Size: p.group,
		Running: p.Config.Rollout.MaxRunningRequests, Tokens: p.Sampling.MaxTokens, Prompt: len(prompt), Mean: mean,
		Cached: cached,
		Cost:   deal.Durations{Pass: passCost, Context: contextCost, Moved: movedCost}}
}

// ExchangesGroups reports whether the replicas of a component exchange groups to balance their numbers of tokens. The
// component must train.
func (p *Plan) ExchangesGroups(component string) bool {
	return p.Config.Reasons() && p.Config.Actor.EnableDPLoadBalance && p.Replicas(component) > 1
}

// RewardComponent returns the component whose workers grade answers.
func (p *Plan) RewardComponent() string {
	switch {
	case p.Replicas("reward") > 0:
		return "reward"
	case p.Replicas("critic") > 0:
		return "critic"
	}
	return "actor"
}

// NeedsReference reports whether training needs a copy of the initial policy, for a KL penalty.
func (p *Plan) NeedsReference() bool {
	return p.Config.Reasons() && (p.Config.Algorithm.KLBeta != 0 || p.Config.Algorithm.ReinppKLBeta != 0)
}

// HasCritic reports whether a critic of answers is trained. Without critic workers the actors train it.
func (p *Plan) HasCritic() bool {
	return p.Config.Reasons() && p.Config.Algorithm.LossType == "actor_critic"
}
