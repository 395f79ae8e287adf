package advice_test

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/spmd"
)

// A simulated job is a split job in virtual time, whose costs may change.
type simulated struct {
	machine *planner.Machine
	profile planner.Profile // as it is
	layout  planner.Placement
	off     float64 // standard deviation of what a prediction does not know of a layout
	noise   float64 // standard deviation of a time
	draw    *rand.Rand
	known   map[string]planner.Prediction // by layout, for the present costs
}

// newSimulated returns a job whose steps take 1 ms and whose inferences take 4 ms.
func newSimulated(seed uint64) *simulated {
	s := &simulated{draw: rand.New(rand.NewPCG(seed, 38)), machine: rolestest.SplitMachine(),
		profile: *rolestest.SplitProfile(16, 0, 0, 20e-3), layout: rolestest.Split(2)}
	s.set(1e-3, 4e-3)
	return s
}

// set sets the seconds of a step and of an inference of a row-unit.
func (s *simulated) set(step, infer float64) {
	costs := slices.Clone(s.profile.Costs)
	costs[0].Seconds, costs[0].Busy, costs[1].Seconds, costs[1].Busy = step, step, infer, infer
	s.profile.Costs = costs
	s.known = map[string]planner.Prediction{}
}

// mean returns what an iteration with a layout takes without noise.
func (s *simulated) mean(l planner.Placement) planner.Prediction {
	name := l.String()
	if p, ok := s.known[name]; ok {
		return p
	}
	p := planner.Predict(s.machine, &s.profile, l, planner.Steady())
	hash := fnv.New64()
	hash.Write([]byte(name))
	f := math.Exp(s.off * rand.New(rand.NewPCG(hash.Sum64(), 1)).NormFloat64())
	p = slow(p, f)
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

// scheduler returns the scheduler of the job as it is now.
func (s *simulated) scheduler() *advice.Scheduler {
	p := s.profile
	return advice.NewScheduler(s.machine, &p, planner.SearchSpace{Nodes: s.layout.Nodes, Present: &s.layout}, 0.1)
}

// placement returns where the members are.
func (s *simulated) placement() *spmd.Placement {
	p := new(spmd.Placement)
	p.Add("actor", s.layout.Actor)
	p.Add("env", s.layout.Env)
	p.Add("rollout", s.layout.Rollout)
	return p
}

// moved returns the layout with the components of a placement there.
func (s *simulated) moved(t *testing.T, placement string) planner.Placement {
	t.Helper()
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, "cluster.num_nodes=0", "~cluster.component_placement",
		"+cluster.component_placement={actor: 0, env: 0, rollout: 0}")
	moved := test.Must(cfg.Moved(rolestest.Registries(), placement))(t)
	p := test.Must(moved.Place(s.layout.Nodes))(t)
	l := s.layout
	for name, ranks := range map[string]*[]int{"actor": &l.Actor, "env": &l.Env, "rollout": &l.Rollout} {
		if !strings.Contains(placement, name) {
			continue
		}
		if before := len(*ranks); len(p.Ranks(name)) != before {
			t.Fatalf("%s: %d members of %s, want %d", placement, len(p.Ranks(name)), name, before)
		}
		*ranks = p.Ranks(name)
	}
	return l
}

// run makes iterations with the scheduler. It returns the seconds of all, moves included, and the steps of the moves.
func (s *simulated) run(t *testing.T, c *advice.Scheduler, from, to, end int64) (sum float64, moves []int64) {
	t.Helper()
	for step := from; step < to; step++ {
		if move := c.Decide(step, end-step); move != nil {
			t.Logf("step %d: %s", step, move.Reason)
			s.layout = s.moved(t, move.Placement)
			c.Moved(s.placement(), step, price)
			sum += price
			moves = append(moves, step)
		}
		it := s.iterate()
		sum += it.Phases[loop.WholeStep]
		c.Observe(it)
	}
	return sum, moves
}

// The phases of the job of TestDrift: the seconds of a step, in as many iterations each.
const each, price = 50, 0.3

func driftPhases() []float64 { return []float64{1e-3, 8e-3, 1e-3} }

// bounds returns the seconds of driftPhases with the best placement of each phase, and with the best one of all. It
// looks at all divisions of the ranks.
func (s *simulated) bounds(t *testing.T) (best, static float64) {
	t.Helper()
	whole := rolestest.Split(4)
	whole.Env, whole.Rollout = rolestest.Split(8).Env, rolestest.Split(8).Env
	if p := s.mean(whole); p.Memory <= s.machine.Memory {
		t.Errorf("%v fits into the memory", whole)
	}
	sums := make([]float64, 8)
	for _, step := range driftPhases() {
		s.set(step, 4e-3)
		least := math.Inf(1)
		for k := 1; k < 8; k++ {
			if p := s.mean(rolestest.Split(k)); p.Memory > s.machine.Memory {
				sums[k] = math.Inf(1)
			} else {
				sums[k] += each * p.Seconds
				least = min(least, p.Seconds)
			}
		}
		best += each * least
	}
	return best, slices.Min(sums[1:])
}

// TestDrift: environments whose step takes 1, 8 and 1 ms. The best placement of each phase is 1.3 times as fast as the
// best one of all. The job that moves reaches 0.85 of the former, and is 1.1 times as fast as the latter.
func TestDrift(t *testing.T) {
	for seed := range uint64(3) {
		s := newSimulated(seed)
		s.noise, s.off = 0.1, 0.05
		best, static := s.bounds(t)
		s.set(driftPhases()[0], 4e-3)
		s.layout = rolestest.Split(4)
		c := s.scheduler()
		took := 0.0
		var moves []int64
		for i, step := range driftPhases() {
			s.set(step, 4e-3)
			n, at := s.run(t, c, int64(i*each), int64(i+1)*each, 3*each)
			took, moves = took+n, append(moves, at...)
			if last := at[len(at)-1]; last > int64(i*each+12) {
				t.Errorf("seed %d: phase %d: moved after %v", seed, i, at)
			}
		}
		t.Logf("seed %d: the best of each phase %.1f s, the best of all %.1f s (%.2f), with moves after %v %.1f s: "+
			"%.2f of the former, %.2f × the latter", seed, best, static, static/best, moves, took, best/took,
			static/took)
		if static < 1.3*best || best < 0.85*took || static < 1.1*took {
			t.Errorf("seed %d: expected 1.30, 0.85 and 1.10", seed)
		}
	}
}

// TestSteady: noise of 10 % moves nothing in 100 iterations, whatever a step costs.
func TestSteady(t *testing.T) {
	steps, seeds := []float64{0.5e-3, 1e-3, 2e-3, 3e-3, 4e-3, 8e-3}, uint64(3)
	if testing.Short() {
		steps, seeds = steps[2:3], 1
	}
	for i, step := range steps {
		for seed := range seeds {
			s := newSimulated(seed + uint64(i)<<8)
			s.noise, s.off = 0.1, 0.02
			s.set(step, 4e-3)
			for k := range 6 {
				p := s.mean(rolestest.Split(k + 2))
				if p.Memory <= s.machine.Memory && p.Seconds < s.mean(s.layout).Seconds {
					s.layout = p.Layout
				}
			}
			if _, moves := s.run(t, s.scheduler(), 0, 100, 10000); len(moves) > 0 {
				t.Errorf("steps of %v s, seed %d: moves after %v", step, seed, moves)
			}
		}
	}
}

// TestWiderPolicy: a policy that becomes 12 times as wide moves ranks to the rollout workers after a few iterations.
func TestWiderPolicy(t *testing.T) {
	s := newSimulated(1)
	s.noise = 0.05
	s.set(2e-3, 0.35e-3)
	s.layout = rolestest.Split(6)
	c := s.scheduler()
	if _, moves := s.run(t, c, 0, 40, 200); len(moves) > 0 {
		t.Fatalf("moved after %v", moves)
	}
	s.profile.Costs[2].Seconds, s.profile.Costs[2].Busy = 12*20e-3, 12*20e-3
	s.set(2e-3, 12*0.35e-3)
	was := s.mean(s.layout).Seconds
	_, moves := s.run(t, c, 40, 60, 200)
	if is := s.mean(s.layout).Seconds; len(moves) != 1 || moves[0] > 48 || is > 0.8*was {
		t.Errorf("moved after %v, from %v to %v s", moves, was, is)
	}
}

// TestWrongPrediction: a job that a move has made slower goes back, and stays.
func TestWrongPrediction(t *testing.T) {
	s := newSimulated(1)
	s.noise = 0.02
	s.set(2e-3, 4e-3)
	right, wrong := rolestest.Split(4), rolestest.Split(3)
	s.layout = right
	s.known[wrong.String()] = slow(s.mean(wrong), 2)
	for _, k := range []int{2, 5, 6} {
		s.known[rolestest.Split(k).String()] = slow(s.mean(rolestest.Split(k)), 2)
	}
	c := s.scheduler()
	_, moves := s.run(t, c, 0, 200, 10000)
	if len(moves) != 2 || s.layout.String() != right.String() {
		t.Errorf("moves after %v to %v", moves, s.layout)
	}
}

// slow returns p with rollouts that take f times as long.
func slow(p planner.Prediction, f float64) planner.Prediction {
	p.Phases = slices.Clone(p.Phases)
	for i := range p.Phases {
		if x := &p.Phases[i]; x.Name == planner.GenerateRollouts {
			p.Seconds += (f - 1) * x.Seconds
			x.Seconds *= f
		}
	}
	return p
}

// decided runs a job until a move is decided, for 60 iterations at most. It returns the placement, the reason, and the
// step.
func decided(s *simulated, c *advice.Scheduler, end int64, times func(*advice.Iteration)) (to, why string, at int64) {
	for step := range int64(60) {
		if move := c.Decide(step, end-step); move != nil {
			return move.Placement, move.Reason, step
		}
		it := s.iterate()
		times(&it)
		c.Observe(it)
	}
	return "", "", 0
}

// badSplit returns a job that a move makes faster, and its scheduler.
func badSplit() (*simulated, *advice.Scheduler) {
	s := newSimulated(1)
	s.layout = rolestest.Split(5)
	return s, s.scheduler()
}

// asIs leaves the times of an iteration as they are.
func asIs(*advice.Iteration) {}

// TestRule: a move is confirmed by a second plan, iterations with evaluations do not count, and a refused layout is not
// chosen again.
func TestRule(t *testing.T) {
	s, c := badSplit()
	to, why, at := decided(s, c, 1000, asIs)
	if at != 7 { // two do not count, three make a window, and two more confirm the choice
		t.Errorf("moved after %d", at)
	}
	if to != `{env: "0-1:0-29", rollout: "2-7:0-29"}` || !strings.Contains(why, "generate_rollouts, bound by") {
		t.Errorf("to %s: %s", to, why)
	}
	t.Log(why)
	c.Refused()
	if again, _, _ := decided(s, c, 1000, asIs); again == to {
		t.Errorf("decided again: %v", again)
	}

	s, c = badSplit()
	evaluates := func(it *advice.Iteration) { it.Phases[loop.Evaluating] = 1 }
	if _, why, _ := decided(s, c, 1000, evaluates); why != "" {
		t.Errorf("moved by the times of evaluations: %s", why)
	}
}

// TestPrice: a move must pay twice in the iterations that are left. A launch takes 0.1 s, and the copies 0.4 s. An
// iteration saves 0.7 s.
func TestPrice(t *testing.T) {
	for left, want := range map[int64]bool{8: false, 10: true} {
		s, c := badSplit()
		if _, why, _ := decided(s, c, left, asIs); (why != "") != want {
			t.Errorf("%d iterations left: %q", left, why)
		}
	}
	s, c := badSplit()
	if _, why, _ := decided(s, c, math.MaxInt64, asIs); !strings.HasSuffix(why, " The move costs about 502.7ms.") {
		t.Errorf("a run without an end: %s", why)
	}
	s, c = badSplit()
	s.layout = rolestest.Split(6)
	c.Moved(s.placement(), 0, 1e3)
	if _, why, _ := decided(s, c, 1000, asIs); why != "" {
		t.Errorf("a move as the last one costs more than it saves: %s", why)
	}
}

// TestGain: an iteration must become a tenth shorter.
func TestGain(t *testing.T) {
	for step := 1e-3; step < 4e-3; step += 0.25e-3 {
		s := newSimulated(1)
		s.set(step, 4e-3)
		s.layout = rolestest.Split(4)
		best := math.Inf(1)
		for k := 2; k < 6; k++ {
			best = min(best, s.mean(rolestest.Split(k)).Seconds)
		}
		gain := 1 - best/s.mean(s.layout).Seconds
		if _, why, _ := decided(s, s.scheduler(), 1000, asIs); why != "" && gain < 0.08 || why == "" && gain > 0.12 {
			t.Errorf("%.0f %% shorter: %q", 100*gain, why)
		}
	}
}

// TestSchedulerOfASubject: the components that a node group holds stay, and the others may move.
func TestSchedulerOfASubject(t *testing.T) {
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, "cluster.num_nodes=0", "~cluster.component_placement",
		"+cluster.component_placement.actor=0-1", "+cluster.component_placement.env=0:0-3",
		"+cluster.component_placement.rollout={node_group: few, placement: 0:0-1}",
		"cluster.node_groups=[{label: few, node_ranks: 1}]", "cluster.auto_scheduler=true",
		"rollout.pipeline_stage_num=1")
	subject := test.Must(advice.New(cfg, rolestest.Registries(), tasks(), []int{0, 1}, true))(t)
	s := newSimulated(1)
	s.profile.Work.Envs, s.profile.Work.Actors = 64, 2
	s.machine.Memory = 0
	s.set(1, 1e-3)
	s.layout = planner.Placement{Nodes: []int{0, 1}, Actor: []int{0, 1}, Env: []int{0, 0, 0, 0}, Rollout: []int{1, 1},
		Stages: 1}
	c := subject.Scheduler(&advice.StartPlan{Machine: s.machine, Profile: &s.profile}, 0.1)
	if to, _, _ := decided(s, c, 1000, func(*advice.Iteration) {}); to != `{env: "0-1:0-3"}` {
		t.Errorf("to %q", to)
	}
}
