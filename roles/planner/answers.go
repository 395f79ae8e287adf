package planner

import "math"

// answer is the closed form of answers by a language model: each rollout worker answers its prompts in stages, the
// cores of a node are shared, and actors compute log-probs of what has arrived.
func (c *choice) answer(m *Machine, p *Profile) played {
	w := &p.Work
	each := math.Ceil(float64(w.Prompts) / float64(len(c.rollout.ranks)))
	inStage := math.Ceil(each / float64(c.stages))
	call := p.Time(OpGenerate, inStage*float64(w.Answers))
	stages := math.Ceil(each / inStage)
	k := c.rollout.most
	slow := slowdown(m, p, OpGenerate, k)
	generated := stages * (call.Seconds - call.Busy + call.Busy*slow)
	result := played{seconds: generated, bound: "rollout workers, which generate"}
	if !w.LogProbs {
		return result
	}
	tokens := float64(w.Prompts*w.Answers) * w.Tokens / float64(w.Actors)
	probs := p.Time(OpLogProbs, tokens).Seconds
	probs *= slowdown(m, p, OpGenerate, c.actor.most)
	// Groups end at different times: about the last share of the log-probs follows the last answer.
	last := probs / max(1, each)
	if c.shareNodes() { // on the same cores as the answers
		result.seconds = generated + probs*max(0, 1-float64(m.Cores-min(m.Cores, k))/float64(m.Cores))
		result.seconds = max(result.seconds, generated+last)
		return result
	}
	if result.seconds = max(generated, probs) + last; probs > generated {
		result.bound = "actors, which compute log-probs"
	}
	return result
}

// shareNodes reports whether an actor and a rollout worker are on one node.
func (c *choice) shareNodes() bool {
	for n, k := range c.rollout.perNode {
		if k > 0 && c.actor.perNode[n] > 0 {
			return true
		}
	}
	return false
}
