package lm

// TrainingBytes returns the greatest memory of a Work of NewTraining, for batches of this number of
// tokens and sequences. The Work allocates a part of it at its first use.
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

// productBytes is the most memory that a kernel.Multiplier takes for packed pieces of its factors.
const productBytes = 5 << 18

// headRowsOf returns the number of rows of logits that are in memory at a time.
func headRowsOf(c *Config, rows int) int { return max(1, min(headRows, headLogits/c.Vocab, rows)) }
