package lm

// TrainingBytes returns the greatest memory of a Work of NewTraining, for micro-batches of this number of tokens and
// sequences. passes is the largest number of micro-batches whose backward pass is to come: the number of stages from
// this one on. again is the argument of Recompute. The Work allocates a part of the memory at its first use. m needs no
// memory.
func (m *Model) TrainingBytes(tokens, sequences, passes, again int) int {
	c, n := &m.local, tokens
	d, q, kv := c.Hidden, c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	x := c.Experts
	slots := n * x.PerToken
	pages := (n + (PageLen-1)*sequences) / PageLen
	kept, wide := n*(2*d+1)+pages*m.PageBytes()/4, 0 // of one pass: final, keys and values, then activations
	var repeated [2]int                              // of a dense and of a sparse layer
	for i := range m.layers {
		layer, kind := n*(d+2*q+2)+n*c.Heads, 0
		if c.QKNorm {
			layer += n * (q + kv + c.Heads + c.KVHeads)
		}
		if m.layers[i].experts != nil {
			layer += n*(x.Count+2*x.SharedIntermediate+d+1) + slots*(4+2*x.Intermediate+d) + x.Count + 1
			wide, kind = max(wide, slots*x.Intermediate, n*x.SharedIntermediate), 1
		} else {
			layer += 2 * n * c.Intermediate
			wide = max(wide, n*c.Intermediate)
		}
		if kept += n * d; i < again {
			repeated[kind] = layer
		} else {
			kept += layer
		}
	}
	total := passes*kept + n*(d+2*kv) + wide // normed, key and value, wide
	total += repeated[0] + repeated[1]
	total += n*(2*d+2*q+2*kv) + wide // derivatives
	if m.part.Size > 1 {
		total += n * d // partial
	}
	if m.last() {
		total += n*d + headRowsOf(&m.Config, n)*(c.Vocab+d) // of the output matrix
		total += 2 * n                                      // its sums, in float64
	}
	if x.Count > 0 {
		total += 2*slots*d + 3*x.Count + n*(x.Count+1)
	}
	if m.lora != nil {
		total += 2 * max(n, slots) * m.lora.Rank
	}
	return 4*(total+m.message(n)) + productBytes
}

// MessageBytes returns the size of the largest message from a stage to another, for micro-batches of this number of
// tokens. It is 0 if all layers are here.
func (m *Model) MessageBytes(tokens int) int { return 4 * m.message(tokens) }

// message is MessageBytes in elements.
func (m *Model) message(tokens int) int {
	switch first, last := m.first(), m.last(); {
	case first && last:
		return 0
	case m.Config.Tied && !m.fixed && (first || last): // see joinEnds
		return max(tokens*m.local.Hidden, min(streamed, m.local.Hidden*m.local.Vocab))
	}
	return tokens * m.local.Hidden
}

// productBytes is the most memory that a kernel.Multiplier takes for packed pieces of its factors.
const productBytes = 5 << 18

// headRowsOf returns the number of rows of logits that are in memory at a time.
func headRowsOf(c *Config, rows int) int { return max(1, min(headRows, headLogits/c.Vocab, rows)) }
