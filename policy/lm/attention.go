package lm

// A span describes the new tokens of one sequence in a forward pass. The tokens are consecutive rows of the batch.
type span struct {
	row, n   int     // first row and number of rows
	first    int     // position of the first row
	pages    []int32 // pages of the whole sequence
	prefix   int     // Batch.Prefix of the sequence
	parallel bool    // Batch.Parallel
}

// sees returns the number of keys that the token at position p attends to. At later positions below limit, the number
// grows by growth (0 or 1) per position.
func (s *span) sees(p int) (keys, limit, growth int) {
	switch end := s.first + s.n; {
	case p < s.prefix:
		return s.prefix, min(s.prefix, end), 0
	case s.parallel:
		return end, end, 0
	default:
		return p + 1, end, 1
	}
}

// An Attention has the arguments of Ops.Attend and Ops.AttendGrad: one layer of a pass. Matrices have a row for each
// token, and heads side by side. Gradients have the shapes of their matrices.
type Attention struct {
	layer, n     int     // number of the layer, and of the tokens
	sizes        *Config // of this part of the model
	spans        []span
	cache        *Cache
	q, o         []float32 // queries and output, [n, heads·head_dim]
	key, value   []float32 // [n, key heads·head_dim]; in Ops.AttendGrad only on a device, which has no cache
	lse          []float32 // log Σ e^score of the queries, [heads, n]; nil without training
	dq, dout     []float32
	dkey, dvalue []float32
}

// attend sets the output and lse of a to the attention of a layer.
func (w *Work) attend(layer int, a *activations) {
	w.attention = Attention{layer: layer, n: w.n, sizes: &w.m.local, spans: w.spans, cache: w.cache, q: a.q, o: a.o,
		key: a.key, value: a.value, lse: a.lse}
	w.ops.Attend(&w.attention)
}

// attendGrad sets w.dq, w.dk and w.dv to the gradients of a layer's queries, keys and values. w.doOut is the gradient
// of the output.
func (w *Work) attendGrad(layer int, a *activations) {
	w.attention = Attention{layer: layer, n: w.n, sizes: &w.m.local, spans: w.spans, cache: w.cache, q: a.q, o: a.o,
		key: a.key, value: a.value, lse: a.lse, dq: w.dq, dkey: w.dk, dvalue: w.dv, dout: w.doOut}
	w.ops.AttendGrad(&w.attention)
}
