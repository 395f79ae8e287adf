package advice_test

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/planner"
)

// A simulated job is one in virtual time, whose costs may change.
type simulated struct {
	machine *planner.Machine
	profile planner.Profile // as it is
	layout  planner.Layout
	off     float64 // standard deviation of what a prediction does not know of a layout
	noise   float64 // standard deviation of a time
	draw    *rand.Rand
	known   map[string]planner.Prediction // by layout, for the present costs
}

// members are the workers of env and of rollout.
const members = 30

// newSimulated returns a job of 8 ranks, each a node with a core, on which environments and a copy of the policy do not
// fit beside each other. Each member has two stages, each a row-unit of environments.
func newSimulated(seed uint64) *simulated {
	s := &simulated{draw: rand.New(rand.NewPCG(seed, 38)), machine: &planner.Machine{Cores: 1, Nodes: 8, Copy: 1e10,
		Memory: 1 << 30, Network: planner.Link{Latency: 50e-6, PerByte: 1e-10}}}
	const each = 8 // environments of a member
	s.profile = planner.Profile{Work: planner.Work{Actors: 8, Envs: members * each, Group: 1, Steps: 16, Epochs: 1,
		Samples: 16 * members * each, WeightsEvery: 1, Staleness: -1,
		Bytes: planner.Bytes{Observation: 100, Action: 10, Trajectory: 2000, Actor: 100 << 20, Rollout: 800 << 20,
			Simulator: 60 << 20 / each}},
		Costs: []planner.Cost{{Op: planner.OpStep, Rows: each / 2}, {Op: planner.OpInfer, Rows: each / 2},
			{Op: planner.OpUpdate, Rows: 16 * members, Seconds: 20e-3, Busy: 20e-3}}}
	s.set(1e-3, 4e-3)
	s.layout = s.split(2)
	return s
}

// set sets the seconds of a step and of an inference of a row-unit.
func (s *simulated) set(step, infer float64) {
	costs := slices.Clone(s.profile.Costs)
	costs[0].Seconds, costs[0].Busy, costs[1].Seconds, costs[1].Busy = step, step, infer, infer
	s.profile.Costs = costs
	s.known = map[string]planner.Prediction{}
}

// split returns the layout with env on the first ranks, this many, and rollout on the others.
func (s *simulated) split(first int) planner.Layout {
	l := planner.Layout{Stages: 2}
	for r := range 8 {
		l.Nodes, l.Actor = append(l.Nodes, r), append(l.Actor, r)
	}
	for i := range members {
		l.Env, l.Rollout = append(l.Env, i*first/members), append(l.Rollout, first+i*(8-first)/members)
	}
	return l
}

// space returns the layouts that the scheduler may choose.
func (s *simulated) space() planner.Space {
	return planner.Space{Nodes: s.layout.Nodes, Present: &s.layout}
}

// mean returns what an iteration with a layout takes without noise.
func (s *simulated) mean(l planner.Layout) planner.Prediction {
	name := l.String()
	if p, ok := s.known[name]; ok {
		return p
	}
	p := planner.Predict(s.machine, &s.profile, l, planner.Steady())
	hash := fnv.New64()
	hash.Write([]byte(name))
	f := math.Exp(s.off * rand.New(rand.NewPCG(hash.Sum64(), 1)).NormFloat64())
	p.Phases = slices.Clone(p.Phases)
	p.Seconds += p.Phase(planner.GenerateRollouts).Seconds * (f - 1)
	for i := range p.Phases {
		if p.Phases[i].Name == planner.GenerateRollouts {
			p.Phases[i].Seconds *= f
		}
	}
	s.known[name] = p
	return p
}

// iterate returns the times of an iteration with the present layout.
func (s *simulated) iterate() (it advice.Iteration) {
	p := s.mean(s.layout)
	noisy := func(seconds float64) float64 { return seconds * max(0.1, 1+s.noise*s.draw.NormFloat64()) }
	rest := p.Seconds
	for i, name := range loop.Phases {
		if t := p.Phase(name).Seconds; t > 0 {
			it.Phases[i] = noisy(t)
			it.Phases[loop.WholeStep] += it.Phases[i]
			rest -= t
		}
	}
	it.Phases[loop.WholeStep] += max(0, rest)
	it.Spent = planner.Spent{Step: noisy(p.Spent.Step), Infer: noisy(p.Spent.Infer), Play: noisy(p.Spent.Play)}
	return it
}

// run makes iterations with the scheduler, which moves members for the price of a move in seconds. It returns the
// seconds of all, and the steps of the moves.
func (s *simulated) run(t *testing.T, c *advice.Scheduler, from, to, end int64, price float64) (sum float64,
	moves []int64) {
	t.Helper()
	for step := from; step < to; step++ {
		if m := c.Decide(step, end-step); m != nil {
			t.Logf("step %d: %s", step, m.Why)
			s.layout = m.Layout
			c.Moved(m.Layout, step, price)
			sum += price
			moves = append(moves, step)
		}
		it := s.iterate()
		sum += it.Phases[loop.WholeStep]
		c.Observe(it)
	}
	return sum, moves
}

// TestDrift: environments that take 1, 8 and 1 ms. The best placement of each phase is 1.3 times as fast as the best
// one of all. The job with moves reaches 0.85 of the former.
func TestDrift(t *testing.T) {
	const each, price = 50, 0.3
	phases := []float64{1e-3, 8e-3, 1e-3}
	for seed := range uint64(4) {
		s := newSimulated(seed)
		s.noise, s.off = 0.1, 0.05
		var best float64
		static := make([]float64, 8)
		for _, step := range phases {
			s.set(step, 4e-3)
			least := math.Inf(1)
			for k := 1; k < 8; k++ {
				p := s.mean(s.split(k))
				static[k] += each * p.Seconds
				if p.Memory <= s.machine.Memory {
					least = min(least, p.Seconds)
				} else {
					static[k] = math.Inf(1)
				}
			}
			best += each * least
		}
		still := slices.Min(static[1:])

		s.set(phases[0], 4e-3)
		s.layout = s.split(4)
		p := s.profile
		c := advice.NewScheduler(s.machine, &p, s.space(), 0.1)
		var took float64
		var moves []int64
		for i, step := range phases {
			s.set(step, 4e-3)
			n, at := s.run(t, c, int64(i*each), int64(i+1)*each, each*int64(len(phases)), price)
			took, moves = took+n, append(moves, at...)
		}
		t.Logf("seed %d: best of each phase %.1f s, best of all %.1f s (%.2f), with moves %.1f s: %.2f of the former, "+
			"%.2f × the latter; moves after %v", seed, best, still, still/best, took, best/took, still/took, moves)
		if still < 1.3*best || best < 0.85*took || still < 1.1*took {
			t.Errorf("seed %d", seed)
		}
	}
}
