package lm

// normSums accumulates the gradients of the norms of queries and keys. Each block of heads is summed separately over
// all tokens, because the blocks can be on several ranks. finish adds the blocks as a tree.
type normSums struct {
	all    []float32 // [layers, blocks of queries and of keys, head_dim]
	open   []bool    // [layers]: whether the layer has unfinished sums; nil before the first sum
	blocks [2]int    // number of blocks of queries and of keys, in this part
	totals []float32 // memory for finish
}

// sums returns the sums of a layer, [blocks, head_dim]: q for queries and k for keys. Both are nil if the norms are not
// trained.
func (s *normSums) sums(w *Work, layer int) (q, k []float32) {
	m := w.m
	if m.layers[layer].qNorm.grad() == nil {
		return nil, nil
	}
	c := &m.Config
	if s.all == nil {
		s.reserve(w)
	}
	s.open[layer] = true
	e := c.HeadDim
	at := s.all[layer*(s.blocks[0]+s.blocks[1])*e:]
	return at[: s.blocks[0]*e : s.blocks[0]*e], at[s.blocks[0]*e:][:s.blocks[1]*e]
}

// reserve makes room for the sums of all layers.
func (s *normSums) reserve(w *Work) {
	m, c := w.m, &w.m.Config
	keys := min(m.blocks, c.KVHeads&-c.KVHeads) // blocks of whole key heads: a power of two
	s.blocks = [2]int{m.own, keys / m.part.Size}
	s.all = w.vector(len(m.layers) * (s.blocks[0] + s.blocks[1]) * c.HeadDim)
	s.open = make([]bool, len(m.layers))
}

// headNormGrad changes dx [n, heads·head_dim] from the gradient with respect to the norm's output to the gradient with
// respect to the norm's input x. It adds the gradient of the norm's weight to sums [blocks, head_dim].
func (w *Work) headNormGrad(sums, dx, x, inv []float32, norm *weight, heads int) {
	e, rows := w.m.local.HeadDim, w.n*heads
	w.ops.RMSNormGrad(dx[:rows*e], sums, dx[:rows*e], x[:rows*e], norm.data(), inv[:rows], rows, e, heads, false)
}

// finish adds the sums of a layer to the gradients of the layer's norms, and clears the sums. A second call adds
// nothing.
func (s *normSums) finish(w *Work, layer int) {
	if s.open == nil || !s.open[layer] {
		return
	}
	m, e := w.m, w.m.Config.HeadDim
	q, k := s.sums(w, layer)
	for _, sums := range [][]float32{q, k} {
		for half := e; half < len(sums); half *= 2 {
			for at := 0; at < len(sums); at += 2 * half {
				w.base.Axpy(sums[at:at+e], 1, sums[at+half:at+half+e])
			}
		}
	}
	l, ofQ, ofK := &m.layers[layer], q[:e], k[:e]
	if w.axis != nil {
		s.totals = append(append(s.totals[:0], ofQ...), ofK...)
		w.sum(s.totals)
		ofQ, ofK = s.totals[:e], s.totals[e:]
	}
	w.base.Axpy(l.qNorm.grad(), 1, ofQ)
	w.base.Axpy(l.kNorm.grad(), 1, ofK)
	w.clear(q)
	w.clear(k)
	s.open[layer] = false
}
