package planner

import (
	"fmt"
	"math"
	"math/bits"
)

// A choice is a layout with what closed forms ask of it. Choices of one search share their groups.
type choice struct {
	nodes               []int
	actor, env, rollout *group // env and rollout are nil if the job has none
	stages              int
	steps               meeting // of env and rollout
	trips               level   // the farthest way of a trajectory to its actor
}

// newChoice returns the choice of a layout.
func newChoice(l *Layout) *choice {
	c := &choice{nodes: l.Nodes, actor: newGroup(l.Actor, l.Nodes), stages: l.Stages}
	if len(l.Env) > 0 {
		c.env = newGroup(l.Env, l.Nodes)
	}
	if len(l.Rollout) > 0 {
		c.rollout = newGroup(l.Rollout, l.Nodes)
		c.trips = meet(c.rollout, c.actor, l.Nodes).worst
	}
	if c.env != nil {
		c.steps = meet(c.env, c.rollout, l.Nodes)
	}
	return c
}

// layout returns the choice as a Layout.
func (c *choice) layout() Layout {
	l := Layout{Nodes: c.nodes, Actor: c.actor.ranks, Stages: c.stages}
	if c.env != nil {
		l.Env = c.env.ranks
	}
	if c.rollout != nil {
		l.Rollout = c.rollout.ranks
	}
	return l
}

// apart reports whether workers of env and rollout exchange messages.
func (c *choice) apart() bool { return c.env != nil && !c.steps.inline }

// idle returns the number of ranks without a member.
func (c *choice) idle() int {
	idle := len(c.nodes)
	for i := range c.actor.bits {
		used := c.actor.bits[i]
		for _, g := range []*group{c.env, c.rollout} {
			if g != nil {
				used |= g.bits[i]
			}
		}
		idle -= bits.OnesCount64(used)
	}
	return idle
}

// memory returns what the fullest node needs, and that node.
func (c *choice) memory(w *Work) (bytes int64, node int) {
	b := &w.Bytes
	rollouts, units := int64(b.Queued+1), int64(w.Envs+w.Prompts)
	actor := b.Actor + b.Replay + rollouts*b.Trajectory*units/int64(w.Actors)
	var env, rollout int64
	if c.env != nil {
		env = (2*(b.Observation+b.Action) + b.Simulator) * units / int64(len(c.env.ranks))
	}
	if c.rollout != nil {
		share := units / int64(len(c.rollout.ranks))
		rollout = b.Copy + rollouts*b.Trajectory*share + 2*(b.Observation+b.Action)*share
	}
	perRank := int64(len(c.nodes)/len(c.actor.perNode)) * b.Rank
	for n := range c.actor.perNode {
		need := perRank + int64(c.actor.perNode[n])*actor
		if c.env != nil {
			need += int64(c.env.perNode[n]) * env
		}
		if c.rollout != nil {
			need += int64(c.rollout.perNode[n])*rollout + int64(c.rollout.hosts[n])*b.Rollout
		}
		if need > bytes {
			bytes, node = need, n
		}
	}
	return bytes, node
}

// rounds returns the rounds of a tree over n nodes.
func rounds(n int) float64 { return math.Ceil(math.Log2(float64(max(1, n)))) }

// weights returns the seconds until all readers have the actors' weights, and how they get them.
func (c *choice) weights(m *Machine, w *Work) (seconds float64, how string) {
	if c.rollout == nil {
		return 0, "no reader"
	}
	away := 0
	for n, k := range c.rollout.perNode {
		if k > 0 && c.actor.perNode[n] == 0 {
			away++
		}
	}
	bytes := float64(w.ModelBytes)
	if away > 0 {
		r := rounds(away + 1)
		seconds, how = r*m.Network.Latency+bytes*m.Network.PerByte*min(r, 2), "a broadcast to other nodes"
	} else if how = "read in place"; w.Async {
		seconds, how = 2*bytes/m.Copy, "a copy for rollouts that go on"
	}
	return seconds / float64(max(1, w.WeightsEvery)), how
}

// trip returns the seconds of the largest trajectory's way to its actor. On a node the slab is shared memory.
func (c *choice) trip(m *Machine, w *Work) float64 {
	if c.rollout == nil {
		return 0
	}
	bytes := float64(w.Envs+w.Prompts) / float64(max(len(c.rollout.ranks), w.Actors)) * float64(w.Bytes.Trajectory)
	if c.trips < twoNodes {
		bytes = 0
	}
	return m.link(c.trips).Time(bytes)
}

// crowd returns what a call of op on each actor's samples takes, where actors crowd a node.
func (c *choice) crowd(m *Machine, p *Profile, op string) float64 {
	t := p.Time(op, float64(p.Work.Samples)/float64(p.Work.Actors))
	return t.Seconds - t.Busy + t.Busy*slowdown(m, p, OpUpdate, c.actor.most)
}

// training returns the phase of training: the update of the most crowded actors, and sums that it does not hide.
func (c *choice) training(m *Machine, p *Profile) Phase {
	w := &p.Work
	update := c.crowd(m, p, OpUpdate)
	sum := float64(w.OptimiserSteps)*c.sum(m, p, float64(w.GradientBytes)) +
		float64(w.SmallSums)*c.sum(m, p, 256)
	hidden := min(sum, w.Backward*update)
	f := Phase{ActorTraining, update + sum - hidden, "the actors' update"}
	if sum-hidden > update {
		f.Bound = "sums over the actors"
	} else if k := c.actor.most; k > m.Cores {
		f.Bound = fmt.Sprintf("the updates of %d actors on %d cores", k, m.Cores)
	}
	return f
}

// sum returns the seconds of a sum of this many bytes over all actors: on each node, and by a tree over the nodes, up
// and down.
func (c *choice) sum(m *Machine, p *Profile, bytes float64) float64 {
	t := p.SumTime(c.actor.most, bytes)
	if c.actor.on > 1 {
		t += 2 * rounds(c.actor.on) * m.Network.Time(bytes)
	}
	return t
}
