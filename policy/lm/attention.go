package lm

import (
	"math"

	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// Attention processes keys in blocks of keyBlock positions, counted from the beginning of the sequence. The blocks do
// not depend on the number of queries. So the output of a query has the same bits in a whole prefill, in a part of a
// prefill, and in decoding with a cache. Within a block, scores, probabilities and the weighted sum are computed in the
// order of the keys. The blocks are added in order, relative to the largest score so far (kernel.SoftmaxBlock).
const (
	keyBlock    = 64
	tileQueries = 32
)

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

// tiles is scratch memory for one tile of queries.
type tiles struct {
	scores, slopes       [tileQueries * keyBlock]float32
	acc                  []float32 // [tileQueries, head_dim]
	top, sum, decay, lse [tileQueries]float32
	// For the backward pass, one head of a sequence: keys [length, head_dim], and pages of values [head_dim, PageLen].
	keys, values []float32
}

// A queryTile is a set of rows of queries, ordered by key head. All rows attend to keys from position 0 on, and a later
// row can attend to more keys.
type queryTile struct {
	at, step      int // offset of the first row in the matrix of queries, and elements from one row to the next
	rows          int
	g, groups     int  // the first key head, and the number of key heads
	first, growth int  // row r attends to keys 0 to first + r·growth - 1
	heads         bool // whether rows are heads of one token, not tokens of one head
}

// maxKeys returns the number of keys of the last row. No row has more keys.
func (t *queryTile) maxKeys() int { return t.first + (t.rows-1)*t.growth }

// eachTile calls f with the query tiles of a span for the key heads [lo, hi). In spans of few tokens, the rows of a
// tile are the heads of one token; otherwise they are the tokens of one head. This choice does not change results.
func (w *Work) eachTile(s *span, lo, hi int, f func(t queryTile, head, token int)) {
	c := &w.m.local
	e, width, group := c.HeadDim, c.Heads*c.HeadDim, c.Heads/c.KVHeads
	if s.n < group || s.n == 1 {
		groups, part := max(1, tileQueries/group), min(group, tileQueries)
		for i := range s.n {
			keys, _, _ := s.sees(s.first + i)
			for g := lo; g < hi; g += groups {
				for j := 0; j < group; j += part {
					n, head := min(groups, hi-g), g*group+j
					at := (s.row+i)*width + head*e
					t := queryTile{at, e, n * min(part, group-j), g, n, keys, 0, true}
					f(t, head, s.row+i)
				}
			}
		}
		return
	}
	for head := lo * group; head < hi*group; head++ {
		for i, rows := 0, 0; i < s.n; i += rows {
			keys, limit, growth := s.sees(s.first + i)
			rows = min(tileQueries, limit-s.first-i)
			at := (s.row+i)*width + head*e
			t := queryTile{at, width, rows, head / group, 1, keys, growth, false}
			f(t, head, s.row+i)
		}
	}
}

// attend computes attention from the queries q [n, heads·head_dim] and the cached keys and values. It writes the result
// to o. o has the shape of q. In training it also writes the log-sum-exp of each query's scores to lse [heads, n].
func (w *Work) attend(layer int, o, q, lse []float32) {
	a := &w.attention
	a.layer, a.o, a.q, a.lse = layer, o, q, lse
	w.runAttention((*Work).attendPart)
}

// attention holds the arguments of attend or attendGrad.
type attention struct {
	layer                       int
	o, q, lse, dq, dk, dv, dout []float32
}

// runAttention runs job for all spans and key heads. Large jobs are split among all members of the team.
func (w *Work) runAttention(job job) {
	operations := 0
	for i := range w.spans {
		s := &w.spans[i]
		operations += 4 * s.n * (s.first + s.n) * w.m.local.Heads * w.m.local.HeadDim
	}
	w.team.run(minSharedOps, operations, job)
}

// eachShare divides all spans and key heads into count parts, and calls f for the part with the given index. If there
// are many spans, a part has whole spans. Otherwise a part has single key heads of spans.
func (w *Work) eachShare(index, count int, f func(s *span, lo, hi int)) {
	heads := w.m.local.KVHeads
	if len(w.spans) >= 4*count || count == 1 {
		for i := index; i < len(w.spans); i += count {
			f(&w.spans[i], 0, heads)
		}
		return
	}
	for i := index; i < len(w.spans)*heads; i += count {
		f(&w.spans[i/heads], i%heads, i%heads+1)
	}
}

func (w *Work) attendPart(index, count int, x *member) {
	a := &w.attention
	w.eachShare(index, count, func(s *span, lo, hi int) {
		w.eachTile(s, lo, hi, func(t queryTile, head, token int) {
			w.attendTile(x, a.layer, s.pages, t, a.o[t.at:], a.q[t.at:])
			if a.lse == nil {
				return
			}
			sum := x.tiles.sum[:t.rows]
			kernel.Log(sum, sum)
			for r := range t.rows {
				a.lse[w.lseAt(&t, head, token, r)] = x.tiles.top[r] + sum[r]
			}
		})
	})
}

// lseAt returns the index of row r of a tile in attention.lse. head and token belong to the tile's first row.
func (w *Work) lseAt(t *queryTile, head, token, r int) int {
	if t.heads {
		return (head+r)*w.n + token
	}
	return head*w.n + token + r
}

func (w *Work) attendTile(x *member, layer int, pages []int32, t queryTile, out, q []float32) {
	a, e := &x.tiles, w.m.local.HeadDim
	for r := range t.rows {
		a.top[r] = float32(math.Inf(-1))
	}
	last, rows := t.maxKeys(), t.rows/t.groups
	for b := 0; b < last; b += keyBlock {
		width := min(keyBlock, last-b)
		for i := range t.groups {
			var keys [keyBlock / PageLen][]float32
			for k := 0; k < width; k += PageLen {
				keys[k/PageLen] = w.cache.keys(layer, pages[(b+k)/PageLen], t.g+i)
			}
			x.x.Pages(a.scores[i*rows*keyBlock:], keyBlock, q[i*rows*t.step:], t.step, keys, rows, e)
		}
		decay := a.decay[:]
		if b == 0 {
			decay = nil
		}
		kernel.SoftmaxBlock(a.scores[:], keyBlock, t.rows, width, t.first-b, t.growth, a.top[:], a.sum[:], decay)
		if b > 0 {
			for r := range t.rows {
				kernel.Scale(a.acc[r*e:(r+1)*e], a.decay[r])
			}
		}
		for k := 0; k < width; k += PageLen {
			for i := range t.groups {
				values := w.cache.values(layer, pages[(b+k)/PageLen], t.g+i)
				x.x.Strided(a.acc[i*rows*e:], e, a.scores[i*rows*keyBlock+k:], keyBlock, 1, values, e, rows, e,
					min(PageLen, width-k), b+k > 0)
			}
		}
	}
	for r := range t.rows {
		kernel.ScaleTo(out[r*t.step:][:e], 1/a.sum[r], a.acc[r*e:(r+1)*e])
	}
}

// attendGrad sets dq, dk and dv to the gradients of the loss with respect to queries, keys and values. dout is the
// gradient with respect to the attention's output o. q and lse come from the forward pass. dk and dv have the shape [n,
// key heads·head_dim]. Every sequence begins at position 0.
//
//	p = e^(q·k - lse),  dv = Σ p·dout,  ds = p·(dout·v - dout·o),  dq = Σ ds·k,  dk = Σ ds·q
//
// Sums over keys and queries are in the order of positions. Sums over a key head's query heads are in the order of the
// heads.
func (w *Work) attendGrad(layer int, dq, dk, dv, dout, o, q, lse []float32) {
	c, a := &w.m.local, &w.attention
	clear(dq[:w.n*c.Heads*c.HeadDim])
	clear(dk[:w.n*c.KVHeads*c.HeadDim])
	clear(dv[:w.n*c.KVHeads*c.HeadDim])
	a.layer, a.o, a.q, a.lse, a.dq, a.dk, a.dv, a.dout = layer, o, q, lse, dq, dk, dv, dout
	w.runAttention((*Work).attendGradPart)
}

func (w *Work) attendGradPart(index, count int, x *member) {
	c, a := &w.m.local, &w.attention
	w.eachShare(index, count, func(s *span, lo, hi int) {
		for g := lo; g < hi; g++ {
			w.unpack(x, a.layer, g, s)
			at := s.row*c.KVHeads*c.HeadDim + g*c.HeadDim
			w.eachTile(s, g, g+1, func(t queryTile, head, token int) {
				for r := range t.rows {
					x.tiles.lse[r] = a.lse[w.lseAt(&t, head, token, r)]
				}
				w.attendTileGrad(x, a.layer, g, s, t, a.dq[t.at:], a.dk[at:], a.dv[at:], a.dout[t.at:], a.o[t.at:],
					a.q[t.at:])
			})
		}
	})
}

// unpack copies the keys and values of key head g to x.tiles: keys as [length, head_dim], and values as pages
// [head_dim, PageLen].
func (w *Work) unpack(x *member, layer, g int, s *span) {
	a, e := &x.tiles, w.m.local.HeadDim
	a.reserve(s.n, e)
	for i, page := range s.pages {
		kernel.Transpose(a.keys[i*e*PageLen:][:e*PageLen], w.cache.keys(layer, page, g), e, PageLen)
		kernel.Transpose(a.values[i*e*PageLen:][:e*PageLen], w.cache.values(layer, page, g), PageLen, e)
	}
}

func (w *Work) attendTileGrad(x *member, layer, g int, s *span, t queryTile, dq, dk, dv, dout, o, q []float32) {
	a, e := &x.tiles, w.m.local.HeadDim
	kvStep := w.m.local.KVHeads * e
	for r := range t.rows {
		a.sum[r] = kernel.Dot(dout[r*t.step:][:e], o[r*t.step:][:e])
	}
	last := t.maxKeys()
	for b := 0; b < last; b += keyBlock {
		width := min(keyBlock, last-b)
		var keys, values [keyBlock / PageLen][]float32
		for k := 0; k < width; k += PageLen {
			keys[k/PageLen] = w.cache.keys(layer, s.pages[(b+k)/PageLen], g)
			values[k/PageLen] = a.values[(b+k)*e:][:e*PageLen]
		}
		x.x.Pages(a.scores[:], keyBlock, q, t.step, keys, t.rows, e)
		x.x.Pages(a.slopes[:], keyBlock, dout, t.step, values, t.rows, e)
		kernel.SoftmaxBlockGrad(a.scores[:], a.slopes[:], keyBlock, t.rows, width, t.first-b, t.growth, a.lse[:],
			a.sum[:])
		x.x.Strided(dv[b*kvStep:], kvStep, a.scores[:], 1, keyBlock, dout, t.step, width, e, t.rows, true)
		x.x.Strided(dk[b*kvStep:], kvStep, a.slopes[:], 1, keyBlock, q, t.step, width, e, t.rows, true)
		x.x.Strided(dq, t.step, a.slopes[:], keyBlock, 1, a.keys[b*e:], e, t.rows, e, width, true)
	}
}
