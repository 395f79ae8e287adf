package lm

// Ops is the arithmetic of a transformer, beside nn.Ops. Each Work has its own, which may keep memory for scratch. A
// call handles all rows, heads and sequences of a pass. Implementations are in this package, because attention reads
// the pages of a Cache.
type Ops interface {
	// Product sets c [m,n] to its initial value plus the sum of the terms that are not zero. kernel.Multiplier
	// describes initial values and blocks.
	Product(c []float32, m, n, blocks int, initial []float32, terms [3]Term)
	// Gradient adds aᵀ·b to c [m,n], for a [k,m] and b [k,n].
	Gradient(c, a, b []float32, m, n, k int)

	// RMSNorm sets y [m,n] to w∘x·inv and inv [m] to 1/√(mean x² + eps). y may be x.
	RMSNorm(y, inv, x, w []float32, m, n int, eps float64)
	// RMSNormGrad sets dx [m,n] to the gradient of x for y = RMSNorm(x), or adds this gradient with acc. dy is the
	// gradient of y, and may be dx. Unless dw is nil, RMSNormGrad adds to dw [blocks,n], the gradient of w: a token has
	// heads rows, and each block has as many of them.
	RMSNormGrad(dx, dw, dy, x, w, inv []float32, m, n, heads int, acc bool)
	// Rotate rotates the pairs of elements j and half+j in all heads of queries q [rows, heads, 2·half] and of keys
	// [rows, keyHeads, 2·half], and multiplies q by scale. cos and sin [rows, half] have the angles. With inverse, the
	// angles are negative.
	Rotate(q, keys, cos, sin []float32, rows, heads, keyHeads, half int, scale float32, inverse bool)
	// SwiGLU sets y to gate·σ(gate)·up, with σ the logistic function.
	SwiGLU(y, gate, up []float32)
	// SwiGLUGrad replaces gate and up with their gradients, and sets y to the result of SwiGLU. dy is the gradient of
	// this result.
	SwiGLUGrad(y, gate, up, dy []float32)

	// Embed sets each row of x [n,width] to the embedding of an id: a row of table, or a column if transposed is set.
	// It leaves out rows of ids below 0.
	Embed(x, table []float32, ids []int32, width int, transposed bool)
	// AddEmbeddings adds row i of x [n,width] to column ids[i] of grad [width,vocabulary]. No id stands twice.
	AddEmbeddings(grad, x []float32, ids []int32, width int)

	// Attend adds the keys and values of a to its cache, and sets the output and, in training, lse.
	Attend(a *Attention)
	// AttendGrad sets the gradients of queries, keys and values. Every sequence begins at position 0.
	AttendGrad(a *Attention)

	// CrossEntropy reads a row of logits [width] for each target, the tokens first to first+width-1. A row of sums has
	// for each block of columns the largest logit, Σ e^(logit - largest) and Σ e^(logit - largest)·(logit - largest),
	// and then the target's logit, if it is here. sums, dists and the slopes of the next method are memory of the
	// program.
	CrossEntropy(sums, logits []float32, targets []Target, first, width, blocks, block int)
	// CrossEntropyGrad replaces logits with their gradients. dlogp and dentropy are the gradients of the targets'
	// log-probabilities and of the entropies; dentropy may be nil.
	CrossEntropyGrad(logits []float32, dists []Distribution, dlogp, dentropy []float32, targets []Target, first,
		width int)
	// Values sets values, memory of the program, to bias[0] plus the products of weight with the given rows of hidden,
	// summed in order in float64.
	Values(values, hidden, weight, bias []float32, rows []int32)
	// Largest sets best [n,2], memory of the program, to the largest logit of each row of logits [n,width] and to its
	// column. Of equal logits it is the first.
	Largest(best, logits []float32, n, width int)
}

var (
	_ Ops = (*team)(nil)
	_ Ops = (*card)(nil)
)
