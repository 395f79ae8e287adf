package vla

import (
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/graph"
)

var _ policy.Described = (*Policy)(nil)

// Graph implements policy.Described.
func (p *Policy) Graph() graph.Node {
	root := graph.Node{Op: graph.Policy, Name: "vla_policy", Parts: []graph.Node{p.observed.graph(&p.own),
		p.vision.Graph(), p.tokens(p.observed.tokens, "positions", p.positions)}}
	slots := p.tokens(p.slots, "slots", p.slotEmbedding)
	if p.own.ActionHead == TokensAutoregressive {
		slots.Params = append(slots.Params, p.params.Param(p.previous))
	}
	trunk := p.trunk.Graph()
	trunk.Out = []int{p.slots, p.d}
	root.Parts = append(root.Parts, slots, trunk,
		policy.ActorNode(p.cfg.NumActionChunks, p.dims, p.actor()...))
	if p.critic != nil {
		root.Parts = append(root.Parts, policy.CriticNode(p.critic))
	}
	return root
}

// tokens describes n tokens of the sequence, to which a learnt field is added.
func (p *Policy) tokens(n int, name string, field int) graph.Node {
	return graph.Node{Op: graph.Tokens, Name: name, Out: []int{n, p.d}, Params: []graph.Param{p.params.Param(field)}}
}

// actor describes the action head.
func (p *Policy) actor() (parts []graph.Node) {
	a := p.actions
	end := graph.Node{Out: []int{p.dims}, Params: []graph.Param{{Name: actionLow, Shape: []int{a.dims}},
		{Name: actionHigh, Shape: []int{a.dims}}}, Consts: []graph.Const{{Name: "gripper", Value: a.gripper}}}
	switch p.own.ActionHead {
	case L1:
		end.Op = graph.Laplace
		return append(parts, p.mean.Graph(), end)
	case Flow:
		end.Op = graph.Denoise
		end.Consts = append(end.Consts, graph.Const{Name: "num_steps", Value: p.own.NumSteps})
		end.Parts = []graph.Node{p.flowState.Graph(), p.flowTime.Graph(), p.flowVelocity.Graph()}
		return append(parts, end)
	}
	end.Op = graph.Bins
	end.Consts = append(end.Consts, graph.Const{Name: "bins", Value: a.bins})
	if p.bins != nil {
		end.Parts = append(end.Parts, p.bins.Graph())
	}
	if p.gripper != nil {
		end.Parts = append(end.Parts, p.gripper.Graph())
	}
	return append(parts, end)
}

// graph describes how observations become numbers, images and tokens of a text.
func (s *observations) graph(c *Config) graph.Node {
	n := graph.Node{Op: graph.Observe, Out: []int{s.width}}
	for _, num := range s.numbers {
		n.Parts = append(n.Parts, graph.Node{Op: graph.Number, Name: num.name, Out: []int{num.width}})
	}
	for _, cam := range s.cameras {
		n.Parts = append(n.Parts, graph.Node{Op: graph.Frames, Name: cam.name,
			Out:    []int{cam.frames, cam.whole.H, cam.whole.W, cam.whole.C},
			Consts: []graph.Const{{Name: "middle", Value: []int{cam.cut.H, cam.cut.W}}}})
	}
	if s.text != "" {
		n.Parts = append(n.Parts, graph.Node{Op: graph.Text, Name: s.text, Out: []int{s.length},
			Consts: []graph.Const{{Name: "max_prompt_length", Value: c.MaxPrompt}}})
	}
	if s.width > 0 {
		shape := []int{s.width}
		n.Parts = append(n.Parts, graph.Node{Op: graph.Whiten, Out: shape,
			Params: []graph.Param{{Name: numbersMean, Shape: shape}, {Name: numbersDeviation, Shape: shape}}})
	}
	return n
}
