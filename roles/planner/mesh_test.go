package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/mesh"
)

func by(stages, tensor int) mesh.Mesh { return mesh.Mesh{Stages: stages, Tensor: tensor} }

// computing returns the times of a call that computes for as long as it takes.
func computing(op string, rows int, seconds float64) CallTimes {
	return CallTimes{Op: op, Rows: rows, Seconds: seconds, Busy: seconds}
}

// spread returns the nodes of n ranks, with as many ranks on each.
func spread(n, each int) (nodes []int) {
	for r := range n {
		nodes = append(nodes, r/each)
	}
	return nodes
}

// texts returns a job that trains two models on 64 answers to 8 prompts: an update of 32 answers takes 80 ms, and 8
// answers take 10 ms. change sets what a test is about.
func texts(change func(w *Workload, m *ModelShape), more ...CallTimes) *Profile {
	p := &Profile{Work: Workload{Actors: 2, Samples: 64, Prompts: 8, Answers: 8, Tokens: 16, OptimiserSteps: 1,
		Model: ModelShape{Layers: 4, Width: 8, MicroBatches: 4, Tokens: 250, Running: 64}},
		Costs: append(more, computing(OpUpdate, 32, 80e-3), computing(OpGenerate, 8, 10e-3))}
	change(&p.Work, &p.Work.Model)
	return p
}

// TestDividedModels: the members of a replica share the work, sum in every layer and wait for other stages. A
// replica on two nodes has slower sums.
func TestDividedModels(t *testing.T) {
	p := texts(func(w *Workload, m *ModelShape) { m.Width = 1000 },
		CallTimes{Op: OpSum, Members: 2, Rows: 1000, Seconds: 1e-3})
	m := &Machine{Cores: 8, Nodes: 2, Copy: 1e9, SameNode: Link{1e-5, 1e-9}, Process: Link{1e-5, 1e-9},
		Network: Link{1e-3, 1e-9}}
	apart, together := []int{0, 1, 0, 1, 0, 1, 0, 1}, []int{0, 0, 0, 0, 1, 1, 1, 1}
	const sum, hand = 2e-5 + 2e-3, 1e-5 + 1e-3 // of 1 MB on a node: two barriers and twice its bytes; a message
	const between = 2e-3 + 2e-3                // by a tree
	for _, c := range []struct {
		name  string
		mesh  mesh.Mesh
		nodes []int
		want  float64
	}{
		{"whole", mesh.Mesh{}, []int{0, 1}, 80e-3},
		{"parts", by(1, 2), []int{0, 0, 1, 1}, 40e-3 + 4*2*(2*4+2)*sum},
		{"stages", by(2, 1), []int{0, 0, 1, 1}, 5.0 / 4 * (40e-3 + 4*2*hand)},
		{"both", by(2, 2), together, 5.0 / 4 * (20e-3 + 4*2*((2*4/2+2)*sum+hand))},
		{"on two nodes", by(2, 2), apart, 5.0 / 4 * (20e-3 + 4*2*((2*4/2+2)*between+1e-3+1e-3))},
	} {
		l := Placement{Nodes: c.nodes, Actor: spread(len(c.nodes), 1), Stages: 1,
			Meshes: map[string]mesh.Mesh{"actor": c.mesh}}
		if got := newChoice(&l).actor.call(m, p, OpUpdate, 32).Seconds; !near(got, c.want, 1e-9) {
			t.Errorf("%s: %v s, want %v", c.name, got, c.want)
		}
		if got := Predict(m, p, l, Steady()).Phase(ActorTraining).Seconds; got < c.want {
			t.Errorf("%s: training takes %v s, want %v and sums", c.name, got, c.want)
		}
	}
}

// TestDividedWork: what members of a divided model take follows from what half a layer and a sum were measured to take,
// from the largest stage, and from the micro-batches between two optimiser steps. Answers take a pass for each token.
func TestDividedWork(t *testing.T) {
	p := texts(func(w *Workload, m *ModelShape) {
		w.OptimiserSteps, w.New, w.Longest = 3, 10, 25
		m.Width, m.MicroBatches, m.Running, m.Parts = 100, 2, 16, []Sharding{{Mesh: by(2, 1), Share: 0.6}}
	}, CallTimes{Op: OpLayerSum, Members: 2, Rows: 100, Seconds: 10e-6},
		CallTimes{Op: OpLayerSum, Members: 2, Rows: 25000, Seconds: 20e-6})
	p.Halves = []Speedup{{OpUpdate, 2, 1.5}} // a third is not divided
	m := twoCores()
	hand := m.SameNode.Latency
	for _, c := range []struct {
		name string
		mesh mesh.Mesh
		op   string
		want float64
	}{
		{"half of an update", by(1, 2), OpUpdate, 80e-3/1.5 + 6*2*(2*4+2)*20e-6},
		{"a fourth of it", by(1, 4), OpUpdate, 80e-3/3 + 80e-3*2/3/4 + 6*2*(2*4+2)*2*20e-6},
		{"two stages", by(2, 1), OpUpdate, (2 + 1) / 2.0 * (0.6*80e-3 + 6*2*hand)},
		{"answers", by(1, 2), OpGenerate, 20e-3 + 25*(2*4+2)*p.Together(OpLayerSum, 2, 4*16*100)},
	} {
		g := newGroup(spread(c.mesh.Members(), 1), ranksOf(8), c.mesh)
		if got := g.call(m, p, c.op, 32).Seconds; !near(got, c.want, 1e-6) {
			t.Errorf("%s: %v s, want %v", c.name, got, c.want)
		}
	}
}

// TestDividedSearch: members of a replica stay together, on as many ranks as the space has.
func TestDividedSearch(t *testing.T) {
	m, p := twoCores(), texts(func(*Workload, *ModelShape) {})
	m.Cores = 8
	meshes := map[string]mesh.Mesh{"actor": by(2, 2), "rollout": by(1, 2), "inference": by(1, 4)}
	f := test.Must(Search(m, p, SearchSpace{Nodes: ranksOf(6), Idle: true, Meshes: meshes,
		Further: map[string]int{"inference": 0}}))(t)
	for _, x := range f.Best {
		l := &x.Layout
		if len(l.Actor) != 8 || len(l.Rollout)%2 != 0 || len(l.Inference)%4 != 0 || len(l.Inference) == 0 {
			t.Errorf("%v", l)
		}
	}
}

// TestOtherLayouts: rollout workers divide a model that fits into no node as a whole, if they may.
func TestOtherLayouts(t *testing.T) {
	p := texts(func(w *Workload, m *ModelShape) {
		w.Bytes.Copy, m.Parts = 100, []Sharding{{Mesh: by(1, 1)}, {Mesh: by(1, 2)}, {Mesh: by(1, 4)}}
	})
	m := twoCores()
	m.Memory = 60
	s := SearchSpace{Nodes: []int{0, 1}, Idle: true, Meshes: map[string]mesh.Mesh{}}
	test.Fails(t, test.Err(Search(m, p, s)), "no placement fits into the memory", "whole")
	s.Free = map[string]Axes{"rollout": {Tensor: true}}
	f, err := Search(m, p, s)
	if err != nil || !strings.Contains(f.Winner().Layout.String(), "rollout 0-1 (2 tensor parts)") ||
		len(s.Meshes) != 0 {
		t.Errorf("%v: %v", err, f)
	}
}

// TestDividedActors: a model that fits into no node as a whole is divided, if the configuration does not say how. The
// number of models stays.
func TestDividedActors(t *testing.T) {
	var parts []Sharding
	for _, x := range []mesh.Mesh{by(1, 1), by(1, 2), by(2, 1), by(2, 2), by(4, 1), by(4, 2)} {
		bytes := int64(1200 / x.Members())
		parts = append(parts, Sharding{x, 0, bytes, bytes / 4, bytes / 2})
	}
	p := texts(func(w *Workload, m *ModelShape) { m.MicroBatches, m.Tokens, m.Parts = 8, 8, parts },
		computing(OpLogProbs, 512, 20e-3), computing(OpValues, 512, 20e-3), computing(OpCritic, 32, 80e-3))
	m := twoCores()
	m.Network.Latency = 5e-3 // so that few members are best, and stages
	s := SearchSpace{Nodes: spread(8, 1), Idle: true, Meshes: map[string]mesh.Mesh{}}
	both := Axes{Stage: true, Tensor: true}
	for _, c := range []struct {
		name    string
		memory  int64
		free    map[string]Axes
		mesh    mesh.Mesh // of the winner's actors; none: nothing fits
		further map[string]int
	}{
		{"whole", 1200, nil, by(1, 1), nil},
		{"fixed", 1199, nil, mesh.Mesh{}, nil},
		{"divided", 700, map[string]Axes{"actor": both}, by(2, 1), nil},
		{"in parts", 700, map[string]Axes{"actor": {Tensor: true}}, by(1, 2), nil},
		{"in quarters", 300, map[string]Axes{"actor": both}, by(4, 1), nil},
		{"eight ranks are too few for two in eighths", 299, map[string]Axes{"actor": both}, mesh.Mesh{}, nil},
		{"others as actors", 600, map[string]Axes{"actor": both, "inference": both, "critic": both}, by(2, 1),
			map[string]int{"inference": 0, "critic": 2}},
	} {
		m.Memory, s.Free, s.Further = c.memory, c.free, c.further
		f, err := Search(m, p, s)
		if c.mesh == (mesh.Mesh{}) {
			test.Fails(t, err, "no placement fits into the memory", "%s", c.name)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		l := &f.Winner().Layout
		if l.Meshes["actor"].Full() != c.mesh || len(l.Actor) != 2*c.mesh.Members() || f.Winner().Memory > c.memory {
			t.Errorf("%s: %v", c.name, l)
		}
		if c.further != nil && len(l.Critic) != 2*l.Meshes["critic"].Members() {
			t.Errorf("%s: %v", c.name, l)
		}
		if !s.Allows(l) {
			t.Errorf("%s: the space does not allow %v", c.name, l)
		}
		s.Free = nil
		if c.mesh.Members() > 1 && s.Allows(l) {
			t.Errorf("%s: the space allows %v where the layout is given", c.name, l)
		}
	}
}

// TestOddNumbers: six actors get a rank each of twenty, though no simple division of the ranks has six.
func TestOddNumbers(t *testing.T) {
	p := &Profile{Work: Workload{Actors: 3, Samples: 66}, Costs: []CallTimes{computing(OpUpdate, 22, 1)}}
	m := twoCores()
	m.Nodes, m.Cores = 10, 2
	f, err := Search(m, p, SearchSpace{Nodes: spread(20, 2), Idle: true,
		Meshes: map[string]mesh.Mesh{"actor": by(1, 2)}})
	if err != nil || f.Winner().Layout.String() != "actor 0-5 (2 tensor parts)" {
		t.Errorf("%v, %v", f, err)
	}
}

// TestDividedModelsOnThousandsOfRanks: a search among the meshes of a model looks at a bounded number of layouts.
func TestDividedModelsOnThousandsOfRanks(t *testing.T) {
	p := texts(func(w *Workload, m *ModelShape) {
		w.Actors, w.Samples, w.Prompts, w.Answers, w.Tokens = 8, 1<<14, 1<<10, 16, 512
		w.OptimiserSteps, w.GradientBytes = 4, 1<<30
		m.Layers, m.Width, m.MicroBatches, m.Tokens = 32, 4096, 64, 4096
	}, computing(OpLogProbs, 1<<20, 20))
	p.Speedups = []Speedup{{OpUpdate, 8, 6}, {OpGenerate, 8, 6}}
	for stages := 1; stages <= 32; stages *= 2 {
		for tensor := 1; tensor <= 8; tensor *= 2 {
			bytes := int64(128<<30) / int64(stages*tensor)
			p.Work.Model.Parts = append(p.Work.Model.Parts, Sharding{by(stages, tensor), 0, bytes, bytes / 4, 0})
		}
	}
	m := twoCores()
	m.Cores, m.Nodes, m.Memory = 8, 512, 64<<30
	s := SearchSpace{Nodes: spread(4096, 8), Idle: true,
		Free: map[string]Axes{"actor": {true, true}, "rollout": {Tensor: true}, "inference": {true, true}}}
	for _, further := range []map[string]int{nil, {"inference": 0}} {
		s.Further = further
		begun := time.Now()
		f := test.Must(Search(m, p, s))(t)
		if l := &f.Winner().Layout; f.Looked > 50_000 || l.Meshes["actor"].Members() < 2 {
			t.Errorf("of %d layouts %v wins", f.Looked, l)
		}
		t.Logf("%d layouts in %v: %v", f.Looked, time.Since(begun), f.Winner().Layout.Meshes)
	}
}
