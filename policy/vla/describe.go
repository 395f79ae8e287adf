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
	actor, embeds := p.actor()
	slots := p.tokens(p.slots, "slots", p.slotEmbedding)
	slots.Params = append(slots.Params, embeds...)
	trunk := p.trunk.Graph()
	trunk.Out = []int{p.slots, p.d}
	root.Parts = append(root.Parts, slots, trunk,
		policy.ActorNode(p.cfg.NumActionChunks, p.dims, actor...))
	if p.critic != nil {
		root.Parts = append(root.Parts, policy.CriticNode(p.critic))
	}
	return root
}

// tokens describes n tokens of the sequence. The learnt field with the given index is added to them.
func (p *Policy) tokens(n int, name string, field int) graph.Node {
	return graph.Node{Op: graph.Tokens, Name: name, Out: []int{n, p.d}, Params: []graph.Param{p.params.Param(field)}}
}

// actor describes the action head; see head.graph.
func (p *Policy) actor() ([]graph.Node, []graph.Param) {
	a := p.actions
	return p.head.graph(graph.Node{Out: []int{p.dims}, Params: []graph.Param{{Name: actionLow, Shape: []int{a.dims}},
		{Name: actionHigh, Shape: []int{a.dims}}}, Consts: []graph.Const{{Name: "gripper", Value: a.gripper}}})
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
