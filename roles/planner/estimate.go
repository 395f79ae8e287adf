package planner

import "math"

// estimateSteps estimates rollouts in environments by a closed form. S is the number of stages, and lanes is the number
// of routes of a rollout worker in each stage. The period of a step is the longest of five times:
//
//	L1  step + inference + two messages: the latency of a step
//	L2  S·step: an env worker steps its stages in turn
//	L3  S·lanes·inference: a rollout worker serves its routes in turn
//	L4  core seconds of all members of a node in a step, divided by the number of cores
//	L5  reward workers: the time for the rewards of all their routes, or the latency of one route
func (c *choice) estimateSteps(m *Machine, p *Profile) rolloutRun {
	w, s := &p.Work, c.stages
	each, share := w.Envs/s/len(c.env.ranks), w.Envs/s/len(c.rollout.ranks) // rows of a stage at each worker
	lanes, rows := math.Ceil(float64(share)/float64(each)), min(each, share)
	step, infer := p.Time(OpStep, float64(each)), p.Time(OpInfer, float64(rows))
	n, stages := float64(w.Steps), float64(s)
	scored := c.rewards(m, p, s*len(c.rollout.ranks)*int(lanes), float64(rows))
	most := 0.0 // L4
	for at := range c.env.perNode {
		load := float64(c.env.perNode[at])*stages*step.Busy + float64(c.rollout.perNode[at])*stages*lanes*infer.Busy
		if c.reward != nil {
			load += float64(c.reward.perNode[at]) * scored.Busy
		}
		most = max(most, load)
	}
	most *= p.Factor(OpInfer, float64(m.Cores)) / float64(m.Cores)
	if c.steps.inline {
		period := max(stages*lanes*(step.Seconds+infer.Seconds), most, scored.Seconds)
		return rolloutRun{seconds: float64(w.Epochs) * (n*period + stages*lanes*infer.Seconds),
			bound: "steps and inferences in turn"}
	}
	link := m.link(c.steps.worst)
	hops := 2*p.Real.Hop + link.Time(float64(w.Bytes.Observation)*float64(rows)) +
		link.Time(float64(w.Bytes.Action)*float64(rows))
	period := max(step.Seconds+infer.Seconds+hops, stages*step.Seconds, stages*lanes*infer.Seconds, most,
		scored.Seconds)
	return rolloutRun{seconds: float64(w.Epochs) * (n*period + infer.Seconds + hops), bound: "the longest of five"}
}

// rewards returns the time that a reward worker takes to score one step of all its routes. The job has this many
// routes, each with this many rows (environments). A route waits for its rewards before it sends the next step.
func (c *choice) rewards(m *Machine, p *Profile, routes int, rows float64) Took {
	if c.reward == nil {
		return Took{}
	}
	each := math.Ceil(float64(routes) / float64(len(c.reward.ranks)))
	score := p.Time(OpScore, rows)
	far := sameNode
	if c.reward.on > 1 || c.rollout.on > 1 || !c.reward.shareNodes(c.rollout) {
		far = twoNodes
	}
	way := 2*m.link(far).Latency + rows*float64(p.Work.Bytes.Transition)*m.link(far).PerByte
	return Took{max(each*score.Seconds, score.Seconds+way), each * score.Busy}
}
