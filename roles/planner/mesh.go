package planner

import (
	"fmt"
	"math"
	"strings"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/spmd"
)

// A Mesh says how the members of a component divide a model. The members of a replica have consecutive numbers. Each of
// Pipeline stages has some of the layers, and Tensor members divide every layer of a stage. In the zero Mesh each
// member has a whole model.
type Mesh struct {
	Pipeline int `json:"pipeline"`
	Tensor   int `json:"tensor"`
}

// Members returns the number of members that have a model together.
func (m Mesh) Members() int { return max(1, m.Pipeline) * max(1, m.Tensor) }

// String describes the mesh, as 2 stages × 4 parts; "" if it divides nothing.
func (m Mesh) String() string {
	var parts []string
	if m.Pipeline > 1 {
		parts = append(parts, fmt.Sprintf("%d stages", m.Pipeline))
	}
	if m.Tensor > 1 {
		parts = append(parts, fmt.Sprintf("%d parts", m.Tensor))
	}
	return strings.Join(parts, " × ")
}

// size returns the mesh without zeros.
func (m Mesh) size() Mesh { return Mesh{max(1, m.Pipeline), max(1, m.Tensor)} }

// Axes says which numbers of a Mesh are free.
type Axes struct{ Pipeline, Tensor bool }

// of returns the mesh m, but with the free numbers of the mesh other.
func (a Axes) of(m, other Mesh) Mesh {
	m, other = m.size(), other.size()
	if a.Pipeline {
		m.Pipeline = other.Pipeline
	}
	if a.Tensor {
		m.Tensor = other.Tensor
	}
	return m
}

// A Model describes a language model that members may divide.
type Model struct {
	Layers int `json:"layers"`
	Width  int `json:"width"` // numbers of a token's hidden state
	// MicroBatches is the number of micro-batches in an optimiser step of one replica. Each has about Tokens tokens.
	MicroBatches int `json:"micro_batches"`
	Tokens       int `json:"tokens"`
	Running      int `json:"running,omitempty"` // answers that a rollout worker generates at the same time
	// Parts has the meshes that the model allows.
	Parts []Part `json:"parts,omitempty"`
}

// A Part has the memory in bytes of a member if replicas divide the model by Mesh. It is the memory of the member that
// needs the most. A component that the job does not have needs 0 bytes.
type Part struct {
	Mesh
	// Share is the share of a model's work in the stage with the most work. It is 0 if all stages have the same work.
	Share     float64 `json:"share,omitempty"`
	Actor     int64   `json:"actor"`
	Inference int64   `json:"inference,omitempty"`
	Critic    int64   `json:"critic,omitempty"`
}

// part returns the bytes of members that divide a model by mesh. If the model does not list the mesh, these are in
// w.Bytes.
func (w *Work) part(mesh Mesh) Part {
	mesh = mesh.size()
	for i := range w.Model.Parts {
		if x := &w.Model.Parts[i]; x.Mesh == mesh {
			return *x
		}
	}
	return Part{mesh, 0, w.Bytes.Actor, w.Bytes.Inference, w.Bytes.Critic}
}

// passes returns the number of passes in a call of op on this many rows, and the tokens of each pass. ways is 2 if the
// passes also go backward, and else 1.
func (w *Work) passes(op string, rows float64) (n, tokens float64, ways float64) {
	x := &w.Model
	switch op {
	case OpUpdate, OpCritic:
		return float64(max(1, w.OptimiserSteps*x.MicroBatches)), float64(x.Tokens), 2
	case OpGenerate: // a token of each answer
		running := max(1, min(rows, float64(x.Running)))
		return max(1, w.Longest, w.New*rows/running), running, 1
	}
	tokens = max(1, min(rows, float64(x.Tokens)))
	return max(1, math.Ceil(rows/tokens)), tokens, 1
}

// replicas returns the number of models that the members of g have together.
func (g *group) replicas() int { return len(g.ranks) / g.mesh.Members() }

// call returns the time of a call of op on the rows of one replica, in each of its members and on an idle node. Busy
// has only the seconds in which all threads of the member compute. The members share the work of a whole model. In
// every pass they sum the hidden states twice in each layer and at both ends, and send them to the next stage. Stages
// also wait for each other when a call or an optimiser step begins and ends.
func (g *group) call(m *Machine, p *Profile, op string, rows float64) Took {
	t := p.Time(op, rows)
	if g.threads > 1 {
		f := p.speedup(op, g.threads)
		t = Took{t.Seconds - t.Busy + t.Busy/f, t.Busy / f}
	}
	members := float64(g.mesh.Members())
	if members == 1 || op == OpAdvantages {
		return t
	}
	n, tokens, ways := p.Work.passes(op, rows)
	stages, bytes := float64(max(1, g.mesh.Pipeline)), 4*tokens*float64(p.Work.Model.Width)
	messages := ways * (2*float64(p.Work.Model.Layers)/stages + 2) * g.layerSum(m, p, bytes)
	if stages > 1 {
		messages += ways * m.link(g.inside).Time(bytes)
	}
	inStep := n // micro-batches between two times at which all stages wait
	if ways > 1 {
		inStep = float64(max(1, p.Work.Model.MicroBatches))
	}
	waits := (inStep + stages - 1) / inStep
	stage := p.Work.part(g.mesh).Share
	if stage == 0 {
		stage = 1 / stages
	}
	each := p.divided(op, g.mesh.size().Tensor)
	return Took{waits * (t.Seconds*stage*each + n*messages), t.Busy / stages * each}
}

// divided returns each member's share of the work of a call of op if n members divide every layer.
func (p *Profile) divided(op string, n int) float64 {
	if f := amdahl(p.Halves, op, n); f > 0 {
		return 1 / f
	}
	return 1 / float64(n)
}

// layerSum returns the seconds of a sum of this many bytes over the members that divide a layer. On one node it uses
// the measurement. Without a measurement, or between nodes, it uses a formula.
func (g *group) layerSum(m *Machine, p *Profile, bytes float64) float64 {
	if g.mesh.Tensor <= 1 {
		return 0
	}
	if t := p.Together(OpLayerSum, g.mesh.Tensor, bytes); t > 0 && g.inside != twoNodes {
		return t
	}
	algorithm, link := "shared", m.link(g.inside)
	if g.inside == twoNodes {
		algorithm = "tree"
	}
	c := collectives.CostOf(algorithm, collectives.Shape{Kind: spmd.AllReduce, Members: g.mesh.Tensor, Nodes: 1,
		Bytes: int(bytes)})
	return c.Rounds*link.Latency + c.Bytes*link.PerByte
}
