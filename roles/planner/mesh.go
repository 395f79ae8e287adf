package planner

import (
	"math"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/spmd"
)

// Axes marks the axes of a mesh whose size a search may change.
type Axes struct{ Stage, Tensor bool }

// merge returns m with the marked sizes of source.
func (a Axes) merge(m, source mesh.Mesh) mesh.Mesh {
	m, source = m.Full(), source.Full()
	if a.Stage {
		m.Stages = source.Stages
	}
	if a.Tensor {
		m.Tensor = source.Tensor
	}
	return m
}

// A ModelShape describes a language model that members may shard.
type ModelShape struct {
	Layers int `json:"layers"`
	Width  int `json:"width"` // size of a token's hidden state
	// MicroBatches is the number of micro-batches in an optimiser step of one replica. A micro-batch has about Tokens
	// tokens.
	MicroBatches int `json:"micro_batches"`
	Tokens       int `json:"tokens"`
	Running      int `json:"running,omitempty"` // answers that a rollout worker generates at the same time
	// Parts lists the meshes that the model allows.
	Parts []Sharding `json:"parts,omitempty"`
}

// A Sharding describes replicas that divide the model by Mesh. Actor, Inference and Critic are bytes of memory: those
// of the member of this component that needs most. They are 0 if the job lacks the component.
type Sharding struct {
	mesh.Mesh
	// Share is the fraction of a model's work in its largest stage. It is 0 if all stages have equal work.
	Share     float64 `json:"share,omitempty"`
	Actor     int64   `json:"actor"`
	Inference int64   `json:"inference,omitempty"`
	Critic    int64   `json:"critic,omitempty"`
}

// part returns the Sharding of a mesh. If w.Model.Parts does not list the mesh, the bytes come from w.Bytes.
func (w *Workload) part(of mesh.Mesh) Sharding {
	of = of.Full()
	for i := range w.Model.Parts {
		if x := &w.Model.Parts[i]; x.Mesh == of {
			return *x
		}
	}
	return Sharding{of, 0, w.Bytes.Actor, w.Bytes.Inference, w.Bytes.Critic}
}

// passes returns the number n of passes in a call of op on this many rows, and the number of tokens per pass.
// directions is 2 if each pass has a forward and a backward half, and 1 if it is only forward.
func (w *Workload) passes(op string, rows float64) (n, tokens float64, directions float64) {
	x := &w.Model
	switch op {
	case OpUpdate, OpCritic:
		return float64(max(1, w.OptimiserSteps*x.MicroBatches)), float64(x.Tokens), 2
	case OpGenerate: // each pass adds one token to each answer
		running := max(1, min(rows, float64(x.Running)))
		return max(1, w.Longest, w.New*rows/running), running, 1
	}
	tokens = max(1, min(rows, float64(x.Tokens)))
	return max(1, math.Ceil(rows/tokens)), tokens, 1
}

// replicas returns the number of replicas that the members of g form.
func (g *group) replicas() int { return len(g.ranks) / g.mesh.Members() }

// call returns the time of a call of op on the rows of one replica, on idle nodes. Busy counts the seconds in which all
// threads of a member compute. In each pass, members that shard a layer sum the hidden states twice per layer and at
// both ends of the model. Stages send hidden states to the next stage. They wait for each other at the start and the
// end of a call or optimiser step.
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
	stages, bytes := float64(max(1, g.mesh.Stages)), 4*tokens*float64(p.Work.Model.Width)
	messages := ways * (2*float64(p.Work.Model.Layers)/stages + 2) * g.layerSum(m, p, bytes)
	if stages > 1 {
		messages += ways * m.link(g.inside).Time(bytes)
	}
	inStep := n // micro-batches between two flushes of the pipeline
	if ways > 1 {
		inStep = float64(max(1, p.Work.Model.MicroBatches))
	}
	waits := (inStep + stages - 1) / inStep
	stage := p.Work.part(g.mesh).Share
	if stage == 0 {
		stage = 1 / stages
	}
	each := p.divided(op, g.mesh.Full().Tensor)
	return Took{waits * (t.Seconds*stage*each + n*messages), t.Busy / stages * each}
}

// divided returns the fraction of the work of op that each member does if every layer is sharded over n members.
func (p *Profile) divided(op string, n int) float64 {
	if f := amdahl(p.Halves, op, n); f > 0 {
		return 1 / f
	}
	return 1 / float64(n)
}

// layerSum returns the seconds of a sum of this many bytes over the members that shard a layer. Within a node it uses a
// measurement, if there is one. Otherwise it uses collectives.CostOf.
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
