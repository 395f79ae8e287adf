package planner

import (
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestSpent: what workers spend follows from calls, also in long epochs and on several nodes that are alike.
func TestSpent(t *testing.T) {
	p := waiting()
	step, infer := p.Costs[4].Seconds, p.Costs[5].Seconds // for 64 environments
	one := Placement{Nodes: []int{0, 0}, Actor: []int{0}, Env: []int{0}, Rollout: []int{1}, Stages: 1}
	two := Placement{Nodes: []int{0, 0, 1, 1}, Actor: []int{0}, Env: []int{0, 2}, Rollout: []int{1, 3}, Stages: 1}
	beside := one
	beside.Rollout = []int{0}
	for _, c := range []struct {
		name         string
		l            Placement
		steps, nodes int
		want         Spent
	}{
		{"apart", one, 32, 1, Spent{Step: 32 * step, Infer: 33 * infer}},
		{"long epochs", one, 1000, 1, Spent{Step: 1000 * step, Infer: 1001 * infer}},
		{"two nodes", two, 32, 2, Spent{Step: 2 * 32 * step, Infer: 2 * 33 * infer}},
		{"in turn", beside, 32, 1, Spent{Play: 32*step + 33*infer}},
	} {
		p := waiting()
		p.Work.Steps, p.Work.Envs = c.steps, 64*c.nodes
		got := Predict(twoCores(), p, c.l, Options{Steps: 48}).Spent
		if !near(got.Step, c.want.Step, 1e-3) || !near(got.Infer, c.want.Infer, 1e-3) ||
			!near(got.Play, c.want.Play, 1e-3) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	p.Work.Steps, p.Work.Envs = 32, 128 // two of each on a rank take turns on its core, which does not count
	for i := range p.Costs {
		p.Costs[i].Busy = p.Costs[i].Seconds
	}
	pairs := Placement{Nodes: []int{0, 1}, Actor: []int{0}, Env: []int{0, 0}, Rollout: []int{1, 1}, Stages: 1}
	alone := &Machine{Cores: 1, Nodes: 2, Copy: 1e10}
	if got := Predict(alone, p, pairs, Options{}).Spent; !near(got.Step, 2*32*step, 1e-3) ||
		!near(got.Infer, 2*33*infer, 1e-3) {
		t.Errorf("two of each on a rank: %+v, want %v and %v", got, 2*32*step, 2*33*infer)
	}
	p = waiting()
	p.Costs[4].Busy = step // on a core that env and two rollout workers share
	crowd := Placement{Nodes: []int{0, 0, 0}, Actor: []int{0}, Env: []int{0}, Rollout: []int{1, 2}, Stages: 1}
	m := twoCores()
	m.Cores = 1
	if got, want := Predict(m, p, crowd, Options{}).Spent.Infer, 2*2*33*p.Costs[3].Seconds; !near(got, want, 0.01) {
		t.Errorf("two rollout workers on a core infer for %v s, want %v", got, want)
	}
}

// trialOf returns what iterations of the job of p take with a layout.
func trialOf(p *Profile, l Placement) Trial {
	x := Predict(twoCores(), p, l, Steady())
	t := Trial{Layout: l, Step: x.Seconds + 1e-3, Phases: map[string]float64{"step": x.Seconds + 1e-3}, Spent: x.Spent}
	for _, f := range x.Phases {
		t.Phases[f.Name] = f.Seconds
	}
	return t
}

// TestUpdatesThatLearnNothing: real updates of a model whose answers have equal rewards take no time, and do not make
// updates cheaper than they were measured. Slower ones count, and so do those of environments.
func TestUpdatesThatLearnNothing(t *testing.T) {
	for _, c := range []struct {
		prompts    int
		took, want float64
	}{
		{8, 1e-5, 1}, {8, 40e-3, 2}, {0, 10e-3, 0.5},
	} {
		p := &Profile{Work: Workload{Actors: 1, Samples: 16, Prompts: c.prompts, Answers: 2},
			Costs: []CallTimes{{Op: OpUpdate, Rows: 16, Seconds: 20e-3, Busy: 20e-3}}}
		l := Placement{Nodes: ranksOf(1), Actor: []int{0}, Rollout: []int{0}, Stages: 1}
		Correct(twoCores(), p, Trial{Layout: l, Step: c.took, Phases: map[string]float64{ActorTraining: c.took}}, nil)
		if got := p.Real.Scale[ActorTraining]; !near(got, c.want, 0.05) {
			t.Errorf("%d prompts, an update of %v s: factor %v, want %v", c.prompts, c.took, got, c.want)
		}
	}
}

// A changed job is one whose costs are not those of its profile any more, in a layout with messages. In other its
// workers of env and rollout are on the same ranks.
type changed struct {
	was, is    *Profile
	one, other Placement
}

func newChanged() *changed {
	c := &changed{was: waiting()}
	c.was.Costs = append(c.was.Costs, CallTimes{Op: OpUpdate, Rows: 2048, Seconds: 20e-3, Busy: 20e-3})
	c.was.Real = Real{Calls: map[string]float64{GenerateRollouts: 1e-4}, Scale: map[string]float64{ActorTraining: 1.5}}
	c.is = c.was.scaled(OpStep, 3).scaled(OpInfer, 0.5).scaled(OpUpdate, 2)
	c.one = Placement{Nodes: []int{0, 0}, Actor: []int{0}, Env: []int{0}, Rollout: []int{1}, Stages: 1}
	c.other = c.one
	c.other.Stages, c.other.Env, c.other.Rollout = 2, []int{0, 1}, []int{0, 1}
	return c
}

// TestRefit: a profile that is fitted to the times of one layout tells those of another, though all costs have changed.
func TestRefit(t *testing.T) {
	c := newChanged()
	got := Refit(twoCores(), c.was, trialOf(c.is, c.one))
	for _, op := range []string{OpStep, OpInfer} {
		if x, want := got.Time(op, 32).Seconds, c.is.Time(op, 32).Seconds; !near(x, want, 0.01) {
			t.Errorf("%s takes %v s, want %v", op, x, want)
		}
	}
	for _, l := range []Placement{c.one, c.other} {
		x, want := Predict(twoCores(), got, l, Steady()), Predict(twoCores(), c.is, l, Steady())
		if !near(x.Seconds, want.Seconds+1e-3, 0.01) || !near(x.Phase(ActorTraining).Seconds, 60e-3, 0.01) {
			t.Errorf("%v: %+v, want %+v", l, x, want)
		}
	}
	if c.was.Real.Calls[GenerateRollouts] != 1e-4 || c.was.Real.Scale[ActorTraining] != 1.5 ||
		c.was.Costs[0].Seconds != 1.09e-3 {
		t.Errorf("the profile before has changed: %+v", c.was)
	}
}

// TestRefitMessages: messages that take longer than predicted say nothing of rollouts without messages, also if those
// follow.
func TestRefitMessages(t *testing.T) {
	c := newChanged()
	slower := trialOf(c.is, c.one)
	slower.Phases[GenerateRollouts] *= 1.5
	slower.Step += slower.Phases[GenerateRollouts] / 3
	without := trialOf(c.is, c.other)
	got := Refit(twoCores(), c.was, slower)
	for range 2 {
		x, y := Predict(twoCores(), got, c.one, Steady()), Predict(twoCores(), got, c.other, Steady())
		if !near(x.Seconds, slower.Step, 0.01) || !near(y.Seconds, without.Step, 0.01) {
			t.Errorf("%v s with messages, want %v; %v s without, want %v", x.Seconds, slower.Step, y.Seconds,
				without.Step)
		}
		got = Refit(twoCores(), got, without)
	}
}

// TestRefitWaits: a rank whose rollouts were ready early has waited for the others in the next phase.
func TestRefitWaits(t *testing.T) {
	c := newChanged()
	waited := trialOf(c.is, c.one)
	waited.Phases[CalAdvAndReturns] += waited.Phases[GenerateRollouts] / 2
	got := Refit(twoCores(), c.was, waited)
	for _, l := range []Placement{c.one, c.other} {
		if x, want := Predict(twoCores(), got, l, Steady()).Seconds, trialOf(c.is, l).Step; !near(x, want, 0.05) {
			t.Errorf("%v: %v s, want %v", l, x, want)
		}
	}
}

// TestRefitSum: if only the sum of steps and inferences is known, both have changed alike.
func TestRefitSum(t *testing.T) {
	c := newChanged()
	beside := c.one
	beside.Rollout = []int{0}
	trial := trialOf(c.was.scaled(OpStep, 3).scaled(OpInfer, 3), beside)
	for _, spent := range []Spent{trial.Spent, {}} {
		trial.Spent = spent
		got := Refit(twoCores(), c.was, trial)
		if x := got.Time(OpInfer, 64).Seconds; !near(x, 3*c.was.Time(OpInfer, 64).Seconds, 0.01) {
			t.Errorf("%+v: an inference takes %v s", spent, x)
		}
		if x := Predict(twoCores(), got, beside, Steady()).Seconds; !near(x, trial.Step, 1e-3) {
			t.Errorf("%+v: %v s, want %v", spent, x, trial.Step)
		}
	}
}

// TestRefitAsync: in an asynchronous job the phase of rollouts is a wait, and says nothing about their costs.
func TestRefitAsync(t *testing.T) {
	was := waiting()
	was.Work.Async, was.Work.Staleness = true, 1
	l := Placement{Nodes: []int{0, 0}, Actor: []int{0}, Env: []int{0}, Rollout: []int{1}, Stages: 1}
	for staleness, want := range map[int]float64{1: 2, -1: 1} {
		was.Work.Staleness = staleness
		trial := trialOf(was.scaled(OpStep, 2).scaled(OpInfer, 2), l)
		trial.Phases[GenerateRollouts] /= 4
		got := Refit(twoCores(), was, trial)
		if x := got.Time(OpStep, 64).Seconds / was.Time(OpStep, 64).Seconds; !near(x, want, 0.01) {
			t.Errorf("staleness %d: %v times as long, want %v", staleness, x, want)
		}
		if x := Predict(twoCores(), got, l, Steady()).Seconds; !near(x, trial.Step, 0.01) {
			t.Errorf("staleness %d: %v s, want %v", staleness, x, trial.Step)
		}
	}
}

// TestMovesKeepNumbers: layouts to which members move have the present numbers of members and stages. Several members
// may share a rank.
func TestMovesKeepNumbers(t *testing.T) {
	p := waiting()
	p.Work.Actors = 4
	for i := range p.Costs { // so that env workers are better on more ranks
		p.Costs[i].Busy = p.Costs[i].Seconds
	}
	now := Placement{Nodes: []int{0, 1, 2, 3}, Actor: []int{0, 1, 2, 3}, Env: []int{0, 0, 0, 0, 0, 0, 0, 0},
		Rollout: []int{1, 1, 1, 1}, Stages: 2}
	m := twoCores()
	m.Nodes = 4
	f := test.Must(Search(m, p, SearchSpace{Nodes: now.Nodes, Idle: true, Move: true, Present: &now}))(t)
	shared := false
	for _, x := range f.Best {
		l := &x.Layout
		if len(l.Actor) != 4 || len(l.Env) != 8 || len(l.Rollout) != 4 || l.Stages != 2 || !slices.IsSorted(l.Env) {
			t.Errorf("%v", l)
		}
		shared = shared || l.Env[0] == l.Env[1] && l.Env[7] > 0
	}
	if f.Looked < 20 || !shared || f.Present == nil {
		t.Errorf("%d layouts, the best %v", f.Looked, f.Best)
	}
	to := now
	to.Env = []int{0, 0, 0, 0, 1, 1, 2, 2}
	if m := to.Moves(&now); m.All() != 4 || m["env"] != 4 {
		t.Errorf("%+v", m)
	}
}

// TestMovesKeepRanks: a component may go to the ranks that another one has now, in any place, and others stay where
// they are.
func TestMovesKeepRanks(t *testing.T) {
	p := waiting()
	p.Work.Actors = 1
	for i := range p.Costs {
		p.Costs[i].Busy = p.Costs[i].Seconds
	}
	now := Placement{Nodes: []int{0, 1, 2, 3, 4, 5}, Actor: []int{0}, Env: []int{1, 1, 1, 4}, Rollout: []int{2, 5},
		Stages: 1}
	m := twoCores()
	m.Cores, m.Nodes = 1, 6
	f := test.Must(Search(m, p, SearchSpace{Nodes: now.Nodes, Idle: true, Move: true, Present: &now}))(t)
	few := false
	for _, x := range f.Best {
		l := &x.Layout
		few = few || slices.Equal(l.Rollout, now.Rollout) && l.Moves(&now)["env"] > 0
	}
	if !few {
		t.Errorf("no layout moves environments alone: %v", f.Best)
	}
	if w := f.Winner(); w.Layout.Moves(&now).All() > 4 {
		t.Errorf("%v moves %v", w.Layout, w.Layout.Moves(&now))
	}
}

// TestMemoryOfARank: rollout workers of a rank share the weights.
func TestMemoryOfARank(t *testing.T) {
	w := &waiting().Work
	w.Bytes = Sizes{Rollout: 1000, Copy: 100, Simulator: 1}
	l := Placement{Nodes: []int{0, 1}, Actor: []int{1}, Env: []int{1}, Rollout: []int{0, 0}, Stages: 1}
	if bytes, node := newChoice(&l).memory(w); bytes != 1200 || node != 0 {
		t.Errorf("%d bytes on node %d, want 1200 on 0", bytes, node)
	}
	l.Rollout = []int{1, 1}
	if bytes, node := newChoice(&l).memory(w); bytes != 1264 || node != 1 {
		t.Errorf("%d bytes on node %d, want 1264 on 1", bytes, node)
	}
}

// TestMoveOfFurtherComponents: in a job that moves, reward and inference workers keep their number, and may stay where
// they are while others move.
func TestMoveOfFurtherComponents(t *testing.T) {
	p, m := rewarded(0.1e-3), twoCores()
	p.Work.Actors, m.Cores = 1, 8
	p.Costs = append(p.Costs, CallTimes{Op: OpLogProbs, Rows: 2048, Seconds: 1e-3, Busy: 1e-3})
	present := &Placement{Nodes: ranksOf(8), Actor: []int{0}, Env: []int{0, 0}, Rollout: []int{0, 0}, Reward: []int{2},
		Inference: []int{3, 3, 5}, Stages: 1}
	s := SearchSpace{Nodes: present.Nodes, Present: present, Move: true, Idle: true,
		Further: map[string]int{"reward": 0, "inference": 0}}
	f := test.Must(Search(m, p, s))(t)
	stays := false
	for _, x := range f.Best {
		l := &x.Layout
		if len(l.Reward) != 1 || len(l.Inference) != 3 {
			t.Errorf("%v, from %v", l, present)
		}
		moves := l.Moves(present)
		stays = stays || moves["env"] > 0 && moves["reward"]+moves["inference"] == 0
	}
	if !stays {
		t.Errorf("no layout moves environments alone: %v", f.Best)
	}
}
