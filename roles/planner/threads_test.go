package planner

import (
	"maps"
	"testing"
)

// TestThreads: threads shorten what a lone member takes on its node, by Amdahl's law, and crowd it as members do. A
// search gives members as many as there are cores for, unless their number is fixed.
func TestThreads(t *testing.T) {
	p := &Profile{Work: Workload{Actors: 1, Samples: 64, Prompts: 8, Answers: 8, Tokens: 16, OptimiserSteps: 1},
		Costs: []CallTimes{{Op: OpUpdate, Rows: 64, Seconds: 90e-3, Busy: 90e-3},
			{Op: OpGenerate, Rows: 64, Seconds: 40e-3, Busy: 40e-3}},
		// a third of an update, and nothing of answers, is for one thread
		Speedups: []Speedup{{OpUpdate, 2, 1.5}, {OpGenerate, 2, 2}}}
	m := twoCores()
	m.Cores = 4
	for _, c := range []struct {
		actor, rollout      []int
		threads             map[string]int
		generating, updates float64 // ms
	}{
		{[]int{0}, []int{0}, nil, 40, 90},
		{[]int{0}, []int{0}, map[string]int{"actor": 2, "rollout": 4}, 10, 60},
		{[]int{0}, []int{0}, map[string]int{"actor": 4}, 40, 30 + 15},
		{[]int{0}, []int{0, 1}, map[string]int{"rollout": 4}, 20 / 4 * 2, 90}, // eight threads on four cores
	} {
		l := Placement{Nodes: ranksOf(2), Actor: c.actor, Rollout: c.rollout, Stages: 1, Threads: c.threads}
		x := Predict(m, p, l, Steady())
		if a, b := x.Phase(GenerateRollouts).Seconds*1e3, x.Phase(ActorTraining).Seconds*1e3; !near(a, c.generating,
			0.02) || !near(b, c.updates, 0.02) {
			t.Errorf("%v: %v and %v ms, want %v and %v", &l, a, b, c.generating, c.updates)
		}
	}
	for want, fixed := range map[string]map[string]int{
		"actor 0 with 4 threads each, rollout 0 with 4 threads each": nil,
		"actor 0 with 2 threads each, rollout 0 with 4 threads each": {"actor": 2},
	} {
		f, err := Search(m, p, SearchSpace{Nodes: ranksOf(1), Idle: true, Threads: maps.Clone(fixed)})
		if err != nil || f.Winner().Layout.String() != want {
			t.Errorf("%v: %v, want %s", err, f.Best, want)
		}
	}
}
