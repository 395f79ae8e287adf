package planner

import (
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// rewarded is the job of waiting with reward workers whose calls take this long.
func rewarded(seconds float64) *Profile {
	p := waiting()
	for _, rows := range []int{16, 64} {
		p.Costs = append(p.Costs, CallTimes{Op: OpScore, Rows: rows, Seconds: seconds, Busy: seconds})
	}
	return p
}

// TestRewards: rewards that take less than a step take no time of their own. A slow reward worker decides the period,
// and two of them share the routes.
func TestRewards(t *testing.T) {
	l := Placement{Nodes: ranksOf(4), Actor: []int{0}, Env: []int{0}, Rollout: []int{1}, Reward: []int{2}, Stages: 2}
	beside := l
	beside.Env, beside.Rollout, beside.Stages = []int{0, 1}, []int{0, 1}, 1
	two := l
	two.Env, two.Rollout, two.Reward = []int{0, 1}, []int{0, 1}, []int{2, 3}
	m := twoCores()
	m.Cores = 8
	for _, c := range []struct {
		name   string
		l      Placement
		reward float64
		want   float64 // ms
		bound  string
	}{
		{"hidden", l, 0.1e-3, 72, "env workers"},
		{"slow", l, 5e-3, 32*2*5 + 3, "reward workers"}, // two routes of each step, one after the other
		{"hidden beside", beside, 0.1e-3, 57, "steps and inferences in turn"},
		{"slow beside", beside, 5e-3, 32*2*5 + 3, "reward workers"},
		{"two", two, 5e-3, 32*2*5 + 3, "reward workers"}, // two stages in turn on each rank
	} {
		run := Predict(m, rewarded(c.reward), c.l, Options{}).Phase(GenerateRollouts)
		closed := Estimate(m, rewarded(c.reward), c.l).Phase(GenerateRollouts).Seconds
		if !near(run.Seconds*1e3, c.want, 0.04) || !near(closed*1e3, c.want, 0.04) ||
			!strings.Contains(run.Bound, c.bound) {
			t.Errorf("%s: %.1f ms, in closed form %.1f ms, bound by %s; want %.0f", c.name, run.Seconds*1e3, closed*1e3,
				run.Bound, c.want)
		}
	}
}

// TestGathers: replicas that divide the moments gather the weights after each step: on a node as measured, between
// nodes what each lacks.
func TestGathers(t *testing.T) {
	p := &Profile{Work: Workload{Actors: 4, Samples: 64, OptimiserSteps: 3, GradientBytes: 4000, Gathers: 3},
		Costs: []CallTimes{{Op: OpUpdate, Rows: 16, Seconds: 1e-3}, {Op: OpSum, Members: 4, Rows: 1000, Seconds: 1e-3},
			{Op: OpGather, Members: 4, Rows: 1000, Seconds: 2e-3}}}
	m := twoCores()
	m.Cores, m.Nodes, m.Network = 4, 2, Link{Latency: 1e-3, PerByte: 1e-6}
	for _, c := range []struct {
		nodes  []int
		gather float64 // ms
	}{
		{[]int{0, 0, 0, 0}, 2}, {[]int{0, 0, 1, 1}, 1 + 1 + 2},
	} {
		l := Placement{Nodes: c.nodes, Actor: []int{0, 1, 2, 3}, Stages: 1}
		with := Predict(m, p, l, Steady()).Phase(ActorTraining)
		whole := *p
		whole.Work.Gathers = 0
		without := Predict(m, &whole, l, Steady()).Phase(ActorTraining)
		if got := (with.Seconds - without.Seconds) * 1e3; !near(got, 3*c.gather, 1e-6) {
			t.Errorf("nodes %v: gathers take %v ms, want %v", c.nodes, got, 3*c.gather)
		}
		if want := "weights that the actors gather"; c.nodes[3] == 0 && with.Bound != want {
			t.Errorf("bound by %s, want %s", with.Bound, want)
		}
	}
}

// TestFurtherComponents: a search places reward and inference workers on the ranks of others or on ranks of their own.
// Critic workers keep their number.
func TestFurtherComponents(t *testing.T) {
	m := twoCores()
	m.Cores = 8
	slow := rewarded(4e-3)
	slow.Costs = append(slow.Costs, CallTimes{Op: OpLogProbs, Rows: 64, Seconds: 5e-3, Busy: 5e-3},
		CallTimes{Op: OpLogProbs, Rows: 2048, Seconds: 160e-3, Busy: 160e-3})
	find := func(s SearchSpace) *Found {
		s.Nodes, s.Idle = ranksOf(4), true
		f := test.Must(Search(m, slow, s))(t)
		return f
	}
	f := find(SearchSpace{Further: map[string]int{"reward": 0, "inference": 0}})
	l, own := f.Winner().Layout, false
	for _, x := range f.Best {
		own = own || len(x.Layout.Reward) > 0 && !slices.Contains(x.Layout.Rollout, x.Layout.Reward[0])
	}
	if len(l.Reward) < 2 || len(l.Inference) != 4 || !own || !strings.Contains(l.String(), ", inference 0-3") {
		t.Errorf("of %d layouts %v wins", f.Looked, f.Best)
	}
	if again := find(SearchSpace{Further: map[string]int{"reward": 0,
		"inference": 0}}); again.Winner().Layout.String() !=
		l.String() || again.Winner().Seconds != f.Winner().Seconds {
		t.Errorf("%v, then %v", l, again.Winner().Layout)
	}
	f = find(SearchSpace{Further: map[string]int{"critic": 2}, Fixed: map[string][]int{"reward": {3}}})
	for _, x := range f.Best {
		if len(x.Layout.Critic) != 2 || !slices.Equal(x.Layout.Reward, []int{3}) || x.Layout.Inference != nil {
			t.Errorf("%v", x.Layout)
		}
	}
	if _, err := Search(m, slow, SearchSpace{Nodes: ranksOf(2), Fixed: map[string][]int{"reward": {3}}}); err == nil ||
		!strings.Contains(err.Error(), "too small: reward is on rank 3") {
		t.Errorf("%v", err)
	}
}
