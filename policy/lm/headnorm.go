package lm

import "github.com/rlinf/rlinf/policy/nn/kernel"

// normSums collect the gradients of the norms of queries and keys. Each block of heads has a sum of its own over all
// tokens, because the heads may be on several ranks. The tree over the blocks follows at the end.
type normSums struct {
	all    []float32 // [layers, blocks of queries and of keys, head_dim]; nil: nothing was added
	blocks [2]int    // of queries and of keys, in this part
}

// of returns the sums of a layer, [blocks, head_dim] each. They are nil if the norms are not trained.
func (s *normSums) of(m *Model, layer int) (q, k []float32) {
	if m.layers[layer].qNorm.grad() == nil {
		return nil, nil
	}
	c := &m.Config
	if s.all == nil {
		keys := min(m.blocks, c.KVHeads&-c.KVHeads) // blocks of whole heads that no part divides
		s.blocks = [2]int{m.own, keys / m.part.Size}
		s.all = make([]float32, c.Layers*(s.blocks[0]+s.blocks[1])*c.HeadDim)
	}
	e := c.HeadDim
	at := s.all[layer*(s.blocks[0]+s.blocks[1])*e:]
	return at[: s.blocks[0]*e : s.blocks[0]*e], at[s.blocks[0]*e:][:s.blocks[1]*e]
}

// headNormGrad changes dx [n, heads·head_dim] from the derivative by the norm's output to that by its input x, and adds
// the gradient of the norm to sums [blocks, head_dim].
func (w *Work) headNormGrad(sums, dx, x, inv []float32, norm *weight, heads int) {
	e, rows := w.m.local.HeadDim, w.n*heads
	if sums == nil {
		kernel.RMSNormGrad(dx[:rows*e], nil, dx[:rows*e], x[:rows*e], norm.data(), inv[:rows], rows, e, false)
		return
	}
	per := heads * e / len(sums)
	for r := 0; r < rows; r += per {
		d := dx[r*e : (r+per)*e]
		kernel.RMSNormGrad(d, sums[r%heads/per*e:][:e], d, x[r*e:(r+per)*e], norm.data(), inv[r:r+per], per, e, false)
	}
}

// finish adds the sums to the gradients of the norms, and clears them.
func (s *normSums) finish(w *Work) {
	if s.all == nil {
		return
	}
	m, e := w.m, w.m.Config.HeadDim
	totals := make([]float32, 0, 2*e*len(m.layers))
	for i := range m.layers {
		q, k := s.of(m, i)
		for _, sums := range [][]float32{q, k} {
			for half := e; half < len(sums); half *= 2 {
				for at := 0; at < len(sums); at += 2 * half {
					kernel.Axpy(sums[at:at+e], 1, sums[at+half:at+half+e])
				}
			}
			totals = append(totals, sums[:e]...)
		}
	}
	w.sum(totals)
	for i := range m.layers {
		l := &m.layers[i]
		kernel.Axpy(l.qNorm.grad(), 1, totals[2*i*e:][:e])
		kernel.Axpy(l.kNorm.grad(), 1, totals[(2*i+1)*e:][:e])
	}
	clear(s.all)
}
