package lm

import (
	"math"

	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// Attention works in blocks of keyBlock keys by their position in the sequence, the first from
// position 0 on, for any number of queries. So the output of a query has the same bits in a
// prefill, in a chunk of one, and when it is decoded with a cache. Within a block scores,
// probabilities and the weighted sum follow the keys in order. Blocks follow each other, with the
// largest score so far taken out (SoftmaxBlock).
const (
	keyBlock    = 64
	tileQueries = 32
)

// A span is the tokens of one sequence that a forward pass computes: rows of the batch.
type span struct {
	row, n int     // first row and number of rows
	first  int     // position of the first
	pages  []int32 // of the whole sequence
	prefix int     // as Batch.Prefix has it
	both   bool    // Batch.Parallel
}

// sees returns how many keys the token at a position sees, and up to which position tokens see as
// many, or each one more than the one before it.
func (s *span) sees(p int) (keys, upTo, more int) {
	switch end := s.first + s.n; {
	case p < s.prefix:
		return s.prefix, min(s.prefix, end), 0
	case s.both:
		return end, end, 0
	default:
		return p + 1, end, 1
	}
}

// tiles is the memory of attention for one tile of queries.
type tiles struct {
	scores, slopes       [tileQueries * keyBlock]float32
	acc                  []float32 // [tileQueries, head_dim]
	top, sum, decay, lse [tileQueries]float32
	// of one head of a sequence, for the backward pass: [length, head_dim] and pages [head_dim,
	// PageLen]
	keys, values []float32
}

// A queryTile is some rows of queries that see the same positions, but for the last ones: rows of
// one key head after the other.
type queryTile struct {
	at, step    int // of the first row in the matrix of queries, and from row to row
	rows        int
	g, groups   int  // the first key head, and how many there are
	first, more int  // row r sees the first first + r·more keys
	heads       bool // rows are heads of one token, not tokens of one head
}

// last returns how many keys some row sees.
func (t *queryTile) last() int { return t.first + (t.rows-1)*t.more }

// eachTile calls f with the tiles of queries of a span that use some key heads. Where a span has
// few tokens, the rows of a tile are the heads of one token, else the tokens of one head. Rows do
// not influence each other.
func (w *Work) eachTile(s *span, from, to int, f func(t queryTile, head, token int)) {
	c := &w.m.Config
	e, width, group := c.HeadDim, c.Heads*c.HeadDim, c.Heads/c.KVHeads
	if s.n < group || s.n == 1 {
		groups, part := max(1, tileQueries/group), min(group, tileQueries)
		for i := range s.n {
			keys, _, _ := s.sees(s.first + i)
			for g := from; g < to; g += groups {
				for j := 0; j < group; j += part {
					n, head := min(groups, to-g), g*group+j
					at := (s.row+i)*width + head*e
					t := queryTile{at, e, n * min(part, group-j), g, n, keys, 0, true}
					f(t, head, s.row+i)
				}
			}
		}
		return
	}
	for head := from * group; head < to*group; head++ {
		for i, rows := 0, 0; i < s.n; i += rows {
			keys, upTo, more := s.sees(s.first + i)
			rows = min(tileQueries, upTo-s.first-i)
			at := (s.row+i)*width + head*e
			t := queryTile{at, width, rows, head / group, 1, keys, more, false}
			f(t, head, s.row+i)
		}
	}
}

// attend sets out [n, heads·head_dim] from queries q of the same shape and the keys and values in
// the cache. In training it keeps the logarithm of each query's sum in lse [heads, n].
func (w *Work) attend(layer int, out, q, lse []float32) {
	a := &w.attention
	a.layer, a.o, a.q, a.lse = layer, out, q, lse
	w.attendBy(a.forward)
}

// attention is the arguments of attend and attendGrad, and the parts of them that members do.
type attention struct {
	layer                     int
	o, q, lse, dq, dk, dv, do []float32
	forward, backward         func(number, parts int, x *member)
}

// attendBy runs a job of all spans and key heads, by all members where it is large.
func (w *Work) attendBy(job func(number, parts int, x *member)) {
	operations := 0
	for i := range w.spans {
		s := &w.spans[i]
		operations += 4 * s.n * (s.first + s.n) * w.m.Config.Heads * w.m.Config.HeadDim
	}
	if len(w.team.members) == 1 || operations < sharedFrom {
		job(0, 1, w.team.members[0])
		return
	}
	w.team.run(job)
}

// eachShare calls f with the spans of one part, and the key heads of it: of whole spans where there
// are enough of them.
func (w *Work) eachShare(number, parts int, f func(s *span, from, to int)) {
	heads := w.m.Config.KVHeads
	if len(w.spans) >= 4*parts || parts == 1 {
		for i := number; i < len(w.spans); i += parts {
			f(&w.spans[i], 0, heads)
		}
		return
	}
	for i := number; i < len(w.spans)*heads; i += parts {
		f(&w.spans[i/heads], i%heads, i%heads+1)
	}
}

func (w *Work) attendPart(number, parts int, x *member) {
	a := &w.attention
	w.eachShare(number, parts, func(s *span, from, to int) {
		w.eachTile(s, from, to, func(t queryTile, head, token int) {
			w.attendTile(x, a.layer, s.pages, t, a.o[t.at:], a.q[t.at:])
			if a.lse != nil {
				w.keepLSE(x, a.lse, t, head, token)
			}
		})
	})
}

// keepLSE stores what a softmax needs to be computed again: the largest score plus the logarithm of
// the sum.
func (w *Work) keepLSE(x *member, lse []float32, t queryTile, head, token int) {
	a := &x.tiles
	kernel.Log(a.sum[:t.rows], a.sum[:t.rows])
	for r := range t.rows {
		at := head*w.n + token + r
		if t.heads {
			at = (head+r)*w.n + token
		}
		lse[at] = a.top[r] + a.sum[r]
	}
}

func (w *Work) attendTile(x *member, layer int, pages []int32, t queryTile, out, q []float32) {
	a, e := &x.tiles, w.m.Config.HeadDim
	for r := range t.rows {
		a.top[r] = float32(math.Inf(-1))
	}
	last, rows := t.last(), t.rows/t.groups
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
		kernel.SoftmaxBlock(a.scores[:], keyBlock, t.rows, width, t.first-b, t.more, a.top[:], a.sum[:], decay)
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

// attendGrad sets dq, dk and dv to the derivatives by queries, keys and values, given do at the
// attention's output o, and q and lse of the forward pass. dk and dv are [n, key heads·head_dim].
// Every sequence begins at position 0.
//
//	p = e^(q·k - lse),  dv = Σ p·do,  ds = p·(do·v - do·o),  dq = Σ ds·k,  dk = Σ ds·q
//
// Sums over keys and over queries go in order of their positions, those over the queries' heads of
// a key head in order of the heads.
func (w *Work) attendGrad(layer int, dq, dk, dv, do, o, q, lse []float32) {
	c, a := &w.m.Config, &w.attention
	clear(dq[:w.n*c.Heads*c.HeadDim])
	clear(dk[:w.n*c.KVHeads*c.HeadDim])
	clear(dv[:w.n*c.KVHeads*c.HeadDim])
	a.layer, a.o, a.q, a.lse, a.dq, a.dk, a.dv, a.do = layer, o, q, lse, dq, dk, dv, do
	w.attendBy(a.backward)
}

func (w *Work) attendGradPart(number, parts int, x *member) {
	c, a := &w.m.Config, &w.attention
	w.eachShare(number, parts, func(s *span, from, to int) {
		for g := from; g < to; g++ {
			w.unpack(x, a.layer, g, s)
			at := s.row*c.KVHeads*c.HeadDim + g*c.HeadDim
			w.eachTile(s, g, g+1, func(t queryTile, head, token int) {
				for r := range t.rows {
					row := head*w.n + token + r
					if t.heads {
						row = (head+r)*w.n + token
					}
					x.tiles.lse[r] = a.lse[row]
				}
				w.attendTileGrad(x, a.layer, g, s, t, a.dq[t.at:], a.dk[at:], a.dv[at:], a.do[t.at:], a.o[t.at:],
					a.q[t.at:])
			})
		}
	})
}

// unpack lays the keys of a head out as [length, head_dim], and the values as pages [head_dim,
// PageLen].
func (w *Work) unpack(x *member, layer, g int, s *span) {
	a, e := &x.tiles, w.m.Config.HeadDim
	a.reserve(s.n, e)
	for i, page := range s.pages {
		kernel.Transpose(a.keys[i*e*PageLen:][:e*PageLen], w.cache.keys(layer, page, g), e, PageLen)
		kernel.Transpose(a.values[i*e*PageLen:][:e*PageLen], w.cache.values(layer, page, g), PageLen, e)
	}
}

func (w *Work) attendTileGrad(x *member, layer, g int, s *span, t queryTile, dq, dk, dv, do, o, q []float32) {
	a, e := &x.tiles, w.m.Config.HeadDim
	kvStep := w.m.Config.KVHeads * e
	for r := range t.rows {
		a.sum[r] = kernel.Dot(do[r*t.step:][:e], o[r*t.step:][:e])
	}
	last := t.last()
	for b := 0; b < last; b += keyBlock {
		width := min(keyBlock, last-b)
		var keys, values [keyBlock / PageLen][]float32
		for k := 0; k < width; k += PageLen {
			keys[k/PageLen] = w.cache.keys(layer, s.pages[(b+k)/PageLen], g)
			values[k/PageLen] = a.values[(b+k)*e:][:e*PageLen]
		}
		x.x.Pages(a.scores[:], keyBlock, q, t.step, keys, t.rows, e)
		x.x.Pages(a.slopes[:], keyBlock, do, t.step, values, t.rows, e)
		kernel.SoftmaxBlockGrad(a.scores[:], a.slopes[:], keyBlock, t.rows, width, t.first-b, t.more, a.lse[:],
			a.sum[:])
		x.x.Strided(dv[b*kvStep:], kvStep, a.scores[:], 1, keyBlock, do, t.step, width, e, t.rows, true)
		x.x.Strided(dk[b*kvStep:], kvStep, a.slopes[:], 1, keyBlock, q, t.step, width, e, t.rows, true)
		x.x.Strided(dq, t.step, a.slopes[:], keyBlock, 1, a.keys[b*e:], e, t.rows, e, width, true)
	}
}
