package lm

// Ops is the arithmetic of a transformer, beside nn.Ops. Each Work has its own, which may keep memory for scratch. A
// call handles all rows, heads and sequences of a pass. Implementations are in this package, because attention reads
// the pages of a Cache.
type Ops interface {
	// Product sets c [m,n] to bias [n] in every row, or to 0 if bias is nil, plus the sum of the terms that are not
	// zero. With acc, it adds the sum to c. kernel.Multiplier describes blocks.
	Product(c []float32, m, n, blocks int, bias []float32, acc bool, terms [3]Term)
	// Gradient adds aᵀ·b to c [m,n], for a [k,m] and b [k,n].
	Gradient(c, a, b []float32, m, n, k int)

	// RMSNorm sets y [m,n] to w∘x·inv and inv [m] to 1/√(mean x² + eps). y may be x.
	RMSNorm(y, inv, x, w []float32, m, n int, eps float64)
	// RMSNormGrad sets dx [m,n] to the gradient of x for y = RMSNorm(x), or adds this gradient with acc. dy is the
	// gradient of y, and may be dx. Unless dw is nil, RMSNormGrad adds to dw [blocks,n], the gradient of w: a token has
	// heads rows, and each block has as many of them.
	RMSNormGrad(dx, dw, dy, x, w, inv []float32, m, n, heads int, acc bool)
	// Rotate rotates the pairs of elements j and half+j in all heads of x [rows, heads, 2·half], and multiplies x by
	// scale. cos and sin [rows, half] have the angles. With inverse, the angles are negative.
	Rotate(x, cos, sin []float32, rows, heads, half int, scale float32, inverse bool)
	// SwiGLU sets y to gate·σ(gate)·up, with σ the logistic function.
	SwiGLU(y, gate, up []float32)
	// SwiGLUGrad replaces gate and up with their gradients, and sets y to the result of SwiGLU. dy is the gradient of
	// this result.
	SwiGLUGrad(y, gate, up, dy []float32)

	// Attend adds the keys and values of a to its cache, and sets the output and, in training, lse.
	Attend(a *Attention)
	// AttendGrad sets the gradients of queries, keys and values. Every sequence begins at position 0.
	AttendGrad(a *Attention)

	// CrossEntropy reads a row of logits [width] for each target, the tokens first to first+width-1. A row of sums has
	// for each block of columns the largest logit, Σ e^(logit - largest) and Σ e^(logit - largest)·(logit - largest),
	// and then the target's logit, if it is here.
	CrossEntropy(sums, logits []float32, targets []Target, first, width, blocks, block int)
	// CrossEntropyGrad replaces logits with their gradients. dlogp and dentropy are the gradients of the targets'
	// log-probabilities and of the entropies; dentropy may be nil.
	CrossEntropyGrad(logits []float32, dists []Distribution, dlogp, dentropy []float32, targets []Target, first,
		width int)
}

var _ Ops = (*team)(nil)
