package planner

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/roles/mesh"
)

// A choice is a layout with the values that closed forms need. Choices of one search share their groups. A group is nil
// if the job lacks the component.
type choice struct {
	nodes                     []int
	threads                   map[string]int
	actor, env, rollout       *group
	reward, inference, critic *group
	stages                    int
	steps                     meeting // of env and rollout workers
	trips                     level   // the largest distance of a rollout worker from its actors
	detours                   level   // the largest distance of an inference worker from its peers; 0 if there is none
}

// newChoice returns the choice for a layout.
func newChoice(l *Placement) *choice {
	c := &choice{nodes: l.Nodes, stages: l.Stages}
	for i, of := range l.components() {
		*c.groups()[i] = newGroup(*of.ranks, l.Nodes, l.Meshes[of.name])
	}
	if c.rollout != nil {
		c.trips = meet(c.rollout, c.actor, l.Nodes).worst
	}
	if c.env != nil {
		c.steps = meet(c.env, c.rollout, l.Nodes)
	}
	c.detour()
	c.thread(l.Threads)
	return c
}

func (c *choice) detour() {
	if c.inference != nil && c.rollout != nil {
		c.detours = max(meet(c.rollout, c.inference, c.nodes).worst, meet(c.inference, c.actor, c.nodes).worst)
	}
}

// groups returns the groups in the order of Placement.components.
func (c *choice) groups() [6]**group {
	return [...]**group{&c.actor, &c.env, &c.rollout, &c.reward, &c.inference, &c.critic}
}

// layout returns the choice as a Placement.
func (c *choice) layout() Placement {
	l := Placement{Nodes: c.nodes, Threads: c.threads, Stages: c.stages}
	for i, of := range l.components() {
		g := *c.groups()[i]
		if g == nil {
			continue
		}
		if *of.ranks = g.ranks; g.mesh.Members() > 1 {
			if l.Meshes == nil {
				l.Meshes = map[string]mesh.Mesh{}
			}
			l.Meshes[of.name] = g.mesh
		}
	}
	return l
}

// parts counts what makes a layout complicated: members, stages beyond the first, components with several threads, and
// components on other ranks than the actors.
func (c *choice) parts() int {
	n := c.stages - 1
	for _, of := range c.groups() {
		g := *of
		if g == nil {
			continue
		}
		n += len(g.ranks)
		if !slices.Equal(g.bits, c.actor.bits) {
			n++
		}
		if g.threads > 1 {
			n++
		}
	}
	return n
}

// apart reports whether env workers and rollout workers exchange messages.
func (c *choice) apart() bool { return c.env != nil && !c.steps.inline }

// used returns the bits of the ranks 64·i to 64·i + 63. A bit is set if its rank has a member.
func (c *choice) used(i int) (bits uint64) {
	for _, of := range c.groups() {
		if g := *of; g != nil {
			bits |= g.bits[i]
		}
	}
	return bits
}

// idle returns the number of ranks without a member.
func (c *choice) idle() int {
	idle := len(c.nodes)
	for i := range c.actor.bits {
		idle -= bits.OnesCount64(c.used(i))
	}
	return idle
}

// memory returns the bytes that the fullest node needs, and the number of this node.
func (c *choice) memory(w *Workload) (bytes int64, node int) {
	b := &w.Bytes
	rollouts, units := int64(b.Queued+1), int64(w.Envs+w.Prompts)
	actor := w.part(c.actor.mesh).Actor + b.Replay + rollouts*b.Trajectory*units/int64(w.Actors)
	each := [...]int64{actor, 0, 0, b.Reward, 0, 0} // bytes of a member, in the order of groups
	if c.env != nil {
		each[1] = (2*(b.Observation+b.Action) + b.Simulator) * units / int64(len(c.env.ranks))
	}
	if c.rollout != nil {
		share := units / int64(c.rollout.replicas())
		each[2] = b.Copy/int64(c.rollout.mesh.Members()) + (rollouts*b.Trajectory+2*(b.Observation+b.Action))*share
	}
	if c.inference != nil {
		each[4] = w.part(c.inference.mesh).Inference
	}
	if c.critic != nil {
		each[5] = w.part(c.critic.mesh).Critic
	}
	perRank := int64(len(c.nodes)/len(c.actor.perNode)) * b.Rank
	groups := c.groups()
	for n := range c.actor.perNode {
		need := perRank
		for i, of := range groups {
			if g := *of; g != nil {
				need += int64(g.perNode[n]) * each[i]
			}
		}
		if c.rollout != nil {
			need += int64(c.rollout.hosts[n]) * b.Rollout
		}
		if need > bytes {
			bytes, node = need, n
		}
	}
	return bytes, node
}

// excess returns the bytes that the fullest node lacks, or 0 if the choice fits into memory.
func (c *choice) excess(m *Machine, w *Workload) int64 {
	if m.Memory == 0 {
		return 0
	}
	need, _ := c.memory(w)
	return max(0, need-m.Memory)
}

// rounds returns the number of communication rounds of a tree over n nodes.
func rounds(n int) float64 { return math.Ceil(math.Log2(float64(max(1, n)))) }

// weights returns the average time of the transfer of weights from actors to readers, in seconds per iteration. The
// text how describes the transfer.
func (c *choice) weights(m *Machine, w *Workload) (seconds float64, how string) {
	if c.rollout == nil {
		return 0, "no reader"
	}
	away := 0
	for n, actors := range c.actor.perNode {
		if actors == 0 && (c.rollout.perNode[n] > 0 || c.inference != nil && c.inference.perNode[n] > 0) {
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

// trip returns the seconds that a trajectory takes to reach its actor. Within a node the trajectory is in shared memory
// and only the latency counts. An inference worker copies the trajectory.
func (c *choice) trip(m *Machine, w *Workload) float64 {
	if c.rollout == nil {
		return 0
	}
	whole := float64(w.Envs+w.Prompts) * float64(w.Bytes.Trajectory)
	carry := func(far level) float64 {
		bytes := whole / float64(max(c.rollout.replicas(), w.Actors))
		if far < twoNodes {
			bytes = 0
		}
		return m.link(far).Time(bytes)
	}
	if c.inference == nil {
		return carry(c.trips)
	}
	return 2*carry(c.detours) + whole/float64(c.inference.replicas())/m.Copy
}

// train predicts the phase ActorTraining. Actors and critic workers update at the same time.
func (c *choice) train(m *Machine, p *Profile) PhaseEstimate {
	w := &p.Work
	f := training{c.actor, OpUpdate, float64(w.GradientBytes), w.Gathers, "actors"}.phase(m, p)
	if c.critic == nil {
		return f
	}
	critics := training{c.critic, OpCritic, float64(w.CriticBytes), w.CriticGathers, "critic workers"}
	if g := critics.phase(m, p); g.Seconds > f.Seconds {
		f = g
	}
	actor, critic := c.actor.call(m, p, OpUpdate, w.share(c.actor)), c.critic.call(m, p, OpCritic, w.share(c.critic))
	one, other := float64(max(1, c.actor.threads)), float64(max(1, c.critic.threads))
	load := 0.0 // core seconds of the busiest node
	for n := range c.actor.perNode {
		load = max(load, float64(c.actor.perNode[n])*one*actor.Busy+float64(c.critic.perNode[n])*other*critic.Busy)
	}
	if load *= p.Factor(OpUpdate, float64(m.Cores)) / float64(m.Cores); load > f.Seconds {
		f.Seconds, f.Bound = load, "the updates of actors and critic workers on the cores of a node"
	}
	return f
}

// A training describes how the members of a group train.
type training struct {
	*group
	op      string
	bytes   float64 // size of the gradient
	gathers int     // number of gathers in an iteration
	who     string
}

// phase predicts the phase of the training: the update on the fullest node, the sums that do not overlap with the
// update, and the gathers of weights.
func (t training) phase(m *Machine, p *Profile) PhaseEstimate {
	w := &p.Work
	update := t.crowd(m, p, t.op, w.share(t.group))
	sum := float64(w.OptimiserSteps) * t.sum(m, p, t.bytes)
	if buckets := math.Ceil(t.bytes / float64(max(1, w.BucketBytes))); w.BucketBytes > 0 && buckets > 1 {
		sum -= min(sum*(1-1/buckets), w.Backward*update) // the last bucket overlaps with nothing
	}
	sum += float64(w.SmallSums) * t.sum(m, p, 256)
	gather := float64(t.gathers) * t.gather(m, p, t.bytes)
	f := PhaseEstimate{ActorTraining, update + sum + gather, "the update of the " + t.who}
	switch {
	case max(sum, gather) <= update:
		if t.most > m.Cores {
			f.Bound = fmt.Sprintf("the updates of %d %s on %s", t.most, t.who, figures.Count(m.Cores, "core"))
		}
	case sum > gather:
		f.Bound = "sums over the " + t.who
	default:
		f.Bound = "weights that the " + t.who + " gather"
	}
	return f
}

// sum returns the seconds of an all-reduce of this many bytes over all replicas. Each member of a replica sums its own
// shard. The sum runs within each node, and then up and down a tree of nodes.
func (g *group) sum(m *Machine, p *Profile, bytes float64) float64 {
	here, between := g.parts(bytes)
	t := p.Together(OpSum, min(g.most, g.replicas()), here)
	if n := min(g.on, g.replicas()); n > 1 {
		t += 2 * rounds(n) * m.Network.Time(between)
	}
	return t
}

// gather returns the seconds of an all-gather of this many bytes over all replicas. It runs within each node, and then
// between nodes.
func (g *group) gather(m *Machine, p *Profile, bytes float64) float64 {
	here, between := g.parts(bytes)
	t := p.Together(OpGather, min(g.most, g.replicas()), here)
	if n := float64(min(g.on, g.replicas())); n > 1 {
		t += rounds(int(n))*m.Network.Latency + between*(n-1)/n*m.Network.PerByte
	}
	return t
}

// parts shards this many bytes over the members of a replica. It returns the bytes of one member, and the sum over the
// members on a node.
func (g *group) parts(bytes float64) (member, node float64) {
	n := g.mesh.Members()
	return bytes / float64(n), bytes * float64(min(n, g.most)) / float64(n)
}
