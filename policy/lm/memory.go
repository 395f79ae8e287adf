package lm

// TrainingBytes returns an upper bound, in bytes, for the memory of a Work of NewRecomputing(tokens, layers). sequences
// is the largest number of sequences in a micro-batch. passes is the largest number of micro-batches that wait for
// their backward pass at the same time: the number of stages from this stage to the last. The model need not be
// allocated.
func (m *Model) TrainingBytes(tokens, sequences, passes, layers int) int {
	return m.workBytes(tokens, sequences, passes, layers, true)
}

// InferenceBytes returns an upper bound, in bytes, for the memory of a Work of NewInference(tokens). sequences is the
// largest number of sequences in a micro-batch. The model need not be allocated.
func (m *Model) InferenceBytes(tokens, sequences int) int {
	return m.workBytes(tokens, sequences, 1, len(m.layers), false)
}

// workBytes is TrainingBytes, or InferenceBytes if training is not set.
func (m *Model) workBytes(tokens, sequences, passes, layers int, training bool) int {
	c, n := &m.local, tokens
	d, q, kv := c.Hidden, c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	x := c.Experts
	slots := n * x.PerToken
	pages := (n + (PageLen-1)*sequences) / PageLen
	kept, wide := n*(2*d+1)+pages*m.PageBytes()/4, 0 // kept: elements that one pass keeps; activations follow
	attn := n * (d + 2*q + 2)                        // activations of a layer, without the feed-forward block
	if training {
		attn += n * c.Heads
	}
	if c.QKNorm {
		attn += n * (q + kv + c.Heads + c.KVHeads)
	}
	var shared struct{ attn, dense, sparse int } // elements that repeated layers share
	for i := range m.layers {
		feedForward, of := 2*n*c.Intermediate, &shared.dense
		if m.layers[i].experts != nil {
			feedForward = n*(x.Count+2*x.SharedIntermediate+d+1) + slots*(4+2*x.Intermediate+d) + x.Count + 1
			of, wide = &shared.sparse, max(wide, slots*x.Intermediate, n*x.SharedIntermediate)
		} else {
			wide = max(wide, n*c.Intermediate)
		}
		if training || i == 0 {
			kept += n * d
		}
		if i < layers {
			shared.attn, *of = attn, feedForward
		} else {
			kept += attn + feedForward
		}
	}
	total := passes*kept + n*(d+2*kv) + wide // normed, key and value, wide
	total += shared.attn + shared.dense + shared.sparse
	if training {
		total += n*(2*d+2*q+2*kv) + wide // gradients
	}
	if m.part.Size > 1 {
		total += n * d // partial
	}
	if m.last() {
		total += headRowsOf(&m.Config, n) * (c.Vocab + d) // memory of the output matrix
		if training {
			total += n * d
		}
		total += 2 * n // sums of the output matrix, in float64
	}
	if x.Count > 0 {
		total += 2*slots*d + 3*x.Count + n*(x.Count+1)
	}
	if m.lora != nil {
		total += 2 * max(n, slots) * m.lora.Rank
	}
	return 4*(total+m.message(n)) + productBytes
}

// MessageBytes returns an upper bound, in bytes, for the messages to other stages that are sent but not yet received. A
// micro-batch has the given number of tokens. The bound is 0 if there is only one stage.
func (m *Model) MessageBytes(tokens int) int {
	neighbours := 2
	if m.first() {
		neighbours--
	}
	if m.last() {
		neighbours--
	}
	return 4 * (neighbours*tokens*m.local.Hidden + m.endMessage())
}

// message returns the number of elements in the largest message from or to another stage.
func (m *Model) message(tokens int) int {
	if m.first() && m.last() {
		return 0
	}
	return max(tokens*m.local.Hidden, m.endMessage())
}

// endMessage returns the number of elements in the largest message of joinEnds, or 0 if joinEnds sends no message.
func (m *Model) endMessage() int {
	if m.first() == m.last() || !m.Config.Tied || m.fixed {
		return 0
	}
	return min(streamLen, m.local.Hidden*m.local.Vocab)
}

// productBytes is an upper bound, in bytes, for the memory of a kernel.Multiplier.
const productBytes = 5 << 18

// headRowsOf returns the number of rows of logits that are in memory at a time.
func headRowsOf(c *Config, rows int) int { return max(1, min(headRows, headLogits/c.Vocab, rows)) }
