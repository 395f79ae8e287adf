package lm

// TrainingBytes returns the memory that a Work of NewTraining takes at most, for batches of so many
// tokens in at most so many sequences. The Work takes a part of it when it is first used.
func (c *Config) TrainingBytes(tokens, sequences int, o *LoRA) int {
	d, q, kv, n := c.Hidden, c.Heads*c.HeadDim, c.KVHeads*c.HeadDim, tokens
	x := c.Experts
	slots := n * x.PerToken
	total := 0
	wide := 0
	for i := range c.Layers {
		total += n*(2*d+2*q+2) + n*c.Heads
		if c.QKNorm {
			total += n * (q + kv + c.Heads + c.KVHeads)
		}
		if c.Sparse(i) {
			total += n*(x.Count+2*x.SharedIntermediate+d+1) + slots*(4+2*x.Intermediate+d) + x.Count + 1
			wide = max(wide, slots*x.Intermediate, n*x.SharedIntermediate)
		} else {
			total += 2 * n * c.Intermediate
			wide = max(wide, n*c.Intermediate)
		}
	}
	total += n*(2*d+1) + n*(d+2*kv) + wide      // final, normed, key and value, wide
	total += n*(2*d+2*q+2*kv) + wide            // derivatives
	total += n*d + headRowsOf(c, n)*(c.Vocab+d) // of the output matrix
	total += 2 * n                              // its sums, in float64
	if x.Count > 0 {
		total += 2*slots*d + 3*x.Count + n*(x.Count+1)
	}
	if o != nil {
		total += 2 * max(n, slots) * o.Rank
	}
	pages := (n + (PageLen-1)*sequences) / PageLen
	total += pages * 2 * c.HeadDim * PageLen * c.KVHeads * c.Layers
	return 4*total + productBytes
}

// productBytes is what a kernel.Multiplier takes for packed pieces of its factors, at most.
const productBytes = 5 << 18

// headRowsOf returns how many rows of logits exist at a time.
func headRowsOf(c *Config, rows int) int { return max(1, min(headRows, headLogits/c.Vocab, rows)) }
