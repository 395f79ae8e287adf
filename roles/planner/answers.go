package planner

import "math"

// answer estimates rollouts of a language model by a closed form. Each rollout worker answers its prompts in stages.
// Other workers process answers as they arrive: see choice.after. All workers on a node share its cores.
func (c *choice) answer(m *Machine, p *Profile) rolloutRun {
	w := &p.Work
	each := math.Ceil(float64(w.Prompts) / float64(c.rollout.replicas()))
	inStage := math.Ceil(each / float64(c.stages))
	call := c.rollout.call(m, p, OpGenerate, inStage*float64(w.Answers))
	stages := math.Ceil(each / inStage)
	k := c.rollout.activeThreads()
	slow := slowdown(m, p, OpGenerate, k)
	generated := stages * (call.Seconds - call.Busy + call.Busy*slow)
	result := rolloutRun{seconds: generated, bound: "rollout workers, which generate"}
	taken := max(0, 1-float64(m.Cores-min(m.Cores, k))/float64(m.Cores)) // fraction of the cores that generate answers
	longest, last, shared := generated, 0.0, generated
	for _, s := range c.after(w) {
		work := s.call(m, p, s.op, s.rows/float64(s.replicas())).Seconds * slowdown(m, p, OpGenerate, s.activeThreads())
		// A replica finishes its prompts one after the other, so about one prompt's share of this work follows the last
		// answer.
		last += work / max(1, each)
		if s.shareNodes(c.rollout) { // this work competes with the answers for cores
			shared += work * taken
		} else if work > longest {
			longest, result.bound = work, s.who
		}
	}
	result.seconds = max(shared, longest+last)
	return result
}

// A pass is an operation of a group on finished answers.
type pass struct {
	*group
	op   string
	rows float64 // number of rows, over all replicas
	who  string
}

// after returns the passes between the generation of answers and the update, in their order.
func (c *choice) after(w *Workload) (list []pass) {
	answers := float64(w.Prompts * w.Answers)
	tokens := answers * w.Tokens
	if c.reward != nil {
		list = append(list, pass{c.reward, OpScore, answers, "reward workers, which grade"})
	}
	if c.critic != nil {
		list = append(list, pass{c.critic, OpValues, tokens, "critic workers, which value answers"})
	}
	switch {
	case c.inference != nil:
		list = append(list, pass{c.inference, OpLogProbs, tokens, "inference workers, which compute log-probs"})
	case w.LogProbs:
		list = append(list, pass{c.actor, OpLogProbs, tokens, "actors, which compute log-probs"})
	}
	return list
}

// shareNodes reports whether any node has members of both groups.
func (g *group) shareNodes(h *group) bool {
	for n, k := range h.perNode {
		if k > 0 && g.perNode[n] > 0 {
			return true
		}
	}
	return false
}
