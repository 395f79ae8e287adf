package planner

import (
	"strings"
	"testing"
)

// TestDividedModels: the members of a replica share the work, sum in every layer and wait for other stages. A
// replica on two nodes has slower sums.
func TestDividedModels(t *testing.T) {
	p := &Profile{Work: Work{Actors: 2, Samples: 64, OptimiserSteps: 1, Model: Model{Layers: 4, Width: 1000,
		MicroBatches: 4, Tokens: 250}},
		Costs: []Cost{{Op: OpUpdate, Rows: 32, Seconds: 80e-3, Busy: 80e-3},
			{Op: OpSum, Members: 2, Rows: 1000, Seconds: 1e-3}}}
	m := &Machine{Cores: 8, Nodes: 2, Copy: 1e9, SameNode: Link{1e-5, 1e-9}, Process: Link{1e-5, 1e-9},
		Network: Link{1e-3, 1e-9}}
	apart, together := []int{0, 1, 0, 1, 0, 1, 0, 1}, []int{0, 0, 0, 0, 1, 1, 1, 1}
	const sum, hand = 2e-5 + 2e-3, 1e-5 + 1e-3 // of 1 MB on a node: two barriers and twice its bytes; a message
	const between = 2e-3 + 2e-3                // by a tree
	for _, c := range []struct {
		name  string
		mesh  Mesh
		nodes []int
		want  float64
	}{
		{"whole", Mesh{}, []int{0, 1}, 80e-3},
		{"parts", Mesh{1, 2}, []int{0, 0, 1, 1}, 40e-3 + 4*2*(2*4+2)*sum},
		{"stages", Mesh{2, 1}, []int{0, 0, 1, 1}, 5.0 / 4 * (40e-3 + 4*2*hand)},
		{"both", Mesh{2, 2}, together, 5.0 / 4 * (20e-3 + 4*2*((2*4/2+2)*sum+hand))},
		{"on two nodes", Mesh{2, 2}, apart, 5.0 / 4 * (20e-3 + 4*2*((2*4/2+2)*between+1e-3+1e-3))},
	} {
		l := Layout{Nodes: c.nodes, Stages: 1, Meshes: map[string]Mesh{"actor": c.mesh}}
		for r := range c.nodes {
			l.Actor = append(l.Actor, r)
		}
		if got := newChoice(&l).actor.call(m, p, OpUpdate, 32).Seconds; !near(got, c.want, 1e-9) {
			t.Errorf("%s: %v s, want %v", c.name, got, c.want)
		}
		if got := Predict(m, p, l, Steady()).Phase(ActorTraining).Seconds; got < c.want {
			t.Errorf("%s: training takes %v s, want %v and sums", c.name, got, c.want)
		}
	}
}

// TestDividedSearch: members of a replica stay together, on as many ranks as the space has.
func TestDividedSearch(t *testing.T) {
	p := &Profile{Work: Work{Actors: 2, Samples: 64, Prompts: 8, Answers: 8, Tokens: 16, OptimiserSteps: 1,
		Model: Model{Layers: 4, Width: 8, MicroBatches: 4, Tokens: 250, Running: 64}},
		Costs: []Cost{{Op: OpUpdate, Rows: 32, Seconds: 80e-3, Busy: 80e-3},
			{Op: OpGenerate, Rows: 8, Seconds: 10e-3, Busy: 10e-3}}}
	m := twoCores()
	m.Cores = 8
	meshes := map[string]Mesh{"actor": {2, 2}, "rollout": {1, 2}, "inference": {1, 4}}
	f, err := Search(m, p, Space{Nodes: ranksOf(6), Idle: true, Meshes: meshes,
		Further: map[string]int{"inference": 0}})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range f.Best {
		l := &x.Layout
		if len(l.Actor) != 8 || len(l.Rollout)%2 != 0 || len(l.Inference)%4 != 0 || len(l.Inference) == 0 {
			t.Errorf("%v", l)
		}
	}
}

// TestOtherLayouts: rollout workers divide a model that fits into no node as a whole, if they may.
func TestOtherLayouts(t *testing.T) {
	p := &Profile{Work: Work{Actors: 1, Samples: 64, Prompts: 8, Answers: 8, Tokens: 16,
		Model: Model{Layers: 4, Width: 8, Running: 64, Sizes: []int{1, 2, 4}}, Bytes: Bytes{Copy: 100}},
		Costs: []Cost{{Op: OpGenerate, Rows: 8, Seconds: 10e-3, Busy: 10e-3}}}
	m := twoCores()
	m.Memory = 60
	s := Space{Nodes: []int{0, 1}, Idle: true, Meshes: map[string]Mesh{}}
	if _, err := Search(m, p, s); err == nil || !strings.Contains(err.Error(), "no placement fits into the memory") {
		t.Errorf("whole: %v", err)
	}
	s.Divide = true
	f, err := Search(m, p, s)
	if err != nil || !strings.Contains(f.Winner().Layout.String(), "rollout 0-1 (2 parts)") || len(s.Meshes) != 0 {
		t.Errorf("%v: %v", err, f)
	}
}
