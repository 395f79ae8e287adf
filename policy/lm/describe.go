package lm

import "github.com/rlinf/rlinf/policy/graph"

// Graph describes the model: its sizes, and its own weights in the order of the computation, without adapters.
func (m *Model) Graph() graph.Node {
	c := m.Config
	n := graph.Node{Op: graph.Transformer, Name: string(c.Family)}
	for _, s := range []struct {
		name  string
		value any
	}{
		{"vocab_size", c.Vocab}, {"hidden_size", c.Hidden}, {"num_hidden_layers", c.Layers},
		{"num_attention_heads", c.Heads}, {"num_key_value_heads", c.KVHeads}, {"head_dim", c.HeadDim},
		{"intermediate_size", c.Intermediate}, {"rms_norm_eps", c.Eps},
		{"rope_theta", c.Rope.Theta}, {"experts", c.Experts.Count},
	} {
		if s.value != 0 {
			n.Consts = append(n.Consts, graph.Const{Name: s.name, Value: s.value})
		}
	}
	if c.Rope.Type != RopeDefault {
		n.Consts = append(n.Consts, graph.Const{Name: "rope", Value: c.Rope})
	}
	for _, t := range m.list {
		n.Params = append(n.Params, graph.Param{Name: t.name, Shape: t.shape})
	}
	return n
}
