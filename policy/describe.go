package policy

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/graph"
	"github.com/rlinf/rlinf/policy/nn"
)

// A Described policy can list how it computes an action, from the observations of the environment to the action that
// the environment gets.
type Described interface {
	Graph() graph.Node
}

var _, _, _ Described = (*ActorCritic)(nil), (*SoftActor)(nil), (*Greedy)(nil)

// Graph implements Described.
func (p *ActorCritic) Graph() graph.Node {
	root := graph.Node{Op: graph.Policy, Name: p.obs.name, Parts: []graph.Node{p.obs.graph()}}
	if n := p.HiddenLen(); n > 0 {
		root.Consts = []graph.Const{{Name: HiddenState, Value: n}}
	}
	n := p.net
	if n.front != nil {
		root.Parts = append(root.Parts, n.front.Graph())
	}
	var actor []graph.Node
	if n.actorTrunk != nil {
		actor = append(actor, n.actorTrunk.Graph())
	}
	actor = append(actor, n.actorHead.Graph(), n.dist.Graph())
	switch {
	case p.box != nil:
		actor = append(actor, p.box.graph(graph.TanhBound))
	case p.action.Kind == env.Box:
		actor = append(actor, graph.Node{Op: graph.Clip, Out: []int{len(p.action.Low)},
			Consts: []graph.Const{{Name: "low", Value: p.action.Low}, {Name: "high", Value: p.action.High}}})
	}
	root.Parts = append(root.Parts, ActorNode(p.chunks, n.dims, actor...))
	if n.critic != nil {
		root.Parts = append(root.Parts, CriticNode(n.critic))
	}
	return root
}

// ActorNode describes an actor with the given parts. Its output has dims numbers: a chunk of actions. chunks is the
// number of these actions.
func ActorNode(chunks, dims int, parts ...graph.Node) graph.Node {
	return graph.Node{Op: graph.Actor, Out: []int{chunks, dims / chunks}, Parts: parts}
}

// CriticNode describes a critic.
func CriticNode(net *nn.Net[float32]) graph.Node {
	return graph.Node{Op: graph.Critic, Out: []int{net.Out}, Parts: []graph.Node{net.Graph()}}
}

// Graph implements Described.
func (p *SoftActor) Graph() graph.Node {
	root := graph.Node{Op: graph.Policy, Name: p.obs.name, Parts: []graph.Node{p.obs.graph()}}
	if p.encoder != nil {
		root.Parts = append(root.Parts, p.encoder.net.Graph())
	}
	root.Parts = append(root.Parts,
		ActorNode(p.chunks, p.net.dims, p.net.net.Graph(), p.net.graph(), p.box.graph(graph.Scale)))
	return root
}

// Graph implements Described.
func (p *Greedy) Graph() graph.Node {
	end := graph.Node{Op: graph.Greedy, Out: []int{1}, Consts: []graph.Const{{Name: "epsilon_start",
		Value: p.cfg.EpsilonStart}, {Name: "epsilon_end", Value: p.cfg.EpsilonEnd},
		{Name: "epsilon_steps", Value: p.cfg.EpsilonSteps}}}
	return graph.Node{Op: graph.Policy, Name: p.obs.name,
		Parts: []graph.Node{p.obs.graph(), p.net.Graph(), ActorNode(1, 1, end)}}
}

// graph describes how observations become rows of numbers, images, choices and a mask.
func (o *observations) graph() graph.Node {
	n := graph.Node{Op: graph.Observe, Out: []int{o.width}}
	part := func(op graph.Op, name string, out []int, consts ...graph.Const) {
		n.Parts = append(n.Parts, graph.Node{Op: op, Name: name, Out: out, Consts: consts})
	}
	for _, v := range o.vectors {
		if v.low == nil {
			part(graph.Number, v.Name, v.Shape)
		} else {
			part(graph.Byte, v.Name, v.Shape, graph.Const{Name: "low", Value: v.low},
				graph.Const{Name: "scale", Value: v.scale})
		}
	}
	for _, f := range o.fields {
		if f.Name == env.ActionMask {
			part(graph.Mask, f.Name, f.Shape)
		}
		for _, c := range o.images {
			switch {
			case c.Name != f.Name:
			case c.Views == 1:
				part(graph.Frames, f.Name, f.Shape)
			default:
				part(graph.Frames, f.Name, f.Shape, graph.Const{Name: "view", Value: c.View})
			}
		}
	}
	at := 0
	for _, f := range o.words {
		end := at + f.Dim()
		part(graph.Words, f.Name, f.Shape, graph.Const{Name: "low", Value: o.choices.Low[at:end]},
			graph.Const{Name: "high", Value: o.choices.High[at:end]})
		at = end
	}
	if o.normalizes {
		part(graph.Normalize, "", []int{o.numbers}, graph.Const{Name: "epsilon", Value: obsVariance},
			graph.Const{Name: "clip", Value: o.clip})
		n.Parts[len(n.Parts)-1].Params = []graph.Param{{Name: obsMean, Shape: []int{o.numbers}},
			{Name: obsVar, Shape: []int{o.numbers}}}
	}
	if o.oneHot != nil {
		part(graph.OneHot, "", []int{o.width}, graph.Const{Name: "zero", Value: o.oneHot})
	}
	return n
}

// graph describes the map from [-1, 1] to the bounds.
func (b unitBox) graph(op graph.Op) graph.Node {
	return graph.Node{Op: op, Out: []int{len(b.half)},
		Consts: []graph.Const{{Name: "center", Value: b.center}, {Name: "half", Value: b.half}}}
}

func (c *categorical[T]) Graph() graph.Node {
	return graph.Node{Op: graph.Categorical, Out: []int{len(c.options)},
		Consts: []graph.Const{{Name: "options", Value: c.options}}}
}

func (g *gaussian[T]) Graph() graph.Node {
	return graph.Node{Op: graph.Gaussian, Out: []int{g.dims}, Params: []graph.Param{g.p.Param(g.logStd)}}
}

func (s *sde[T]) Graph() graph.Node {
	return graph.Node{Op: graph.SDE, Out: []int{s.dims}, Params: []graph.Param{s.p.Param(s.logStd)},
		Consts: []graph.Const{{Name: "epsilon", Value: sdeVariance}}}
}

// logStdRange has the constants of log σ in heteroscedastic and squashed.
var logStdRange = []graph.Const{{Name: "low", Value: minLogStd}, {Name: "half", Value: halfRange}}

func (h *heteroscedastic[T]) Graph() graph.Node {
	return graph.Node{Op: graph.Deviations, Out: []int{h.dims},
		Consts: append([]graph.Const{{Name: "shift", Value: float32(h.shift)}}, logStdRange...)}
}

func (s *squashed[T]) graph() graph.Node {
	if s.noise > 0 {
		return graph.Node{Op: graph.Noise, Out: []int{s.dims},
			Consts: []graph.Const{{Name: "deviation", Value: float32(s.noise)}}}
	}
	consts := logStdRange
	if s.clipped {
		consts = []graph.Const{{Name: "least", Value: leastLogStd}, {Name: "most", Value: mostLogStd}}
	}
	return graph.Node{Op: graph.Squashed, Out: []int{s.dims}, Consts: consts}
}
