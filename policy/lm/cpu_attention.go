package lm

import (
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

// tiles is scratch memory for one tile of queries.
type tiles struct {
	scores, slopes [tileQueries * keyBlock]float32
	top, sum, lse  [tileQueries]float32
	few            [2][]float32             // [heads]: the same as top and sum, for the heads of one token
	blocks         [8]kernel.AttentionBlock // of few tokens
	used           int                      // number of blocks in use
	// For the backward pass, one head of a sequence: keys [length, head_dim], and pages of values [head_dim, PageLen].
	keys, values []float32
}

// reserve makes t.keys and t.values large enough for a sequence of the given length, with heads of e elements.
func (t *tiles) reserve(length, e int) {
	n := (length + PageLen - 1) / PageLen * PageLen * e
	if n > len(t.keys) {
		t.keys, t.values = make([]float32, n), make([]float32, n)
	}
}

// A queryTile is a set of tokens of one head. A later token can attend to more keys.
type queryTile struct {
	at, step      int // offset of the first row in the matrix of queries, and elements from one row to the next
	rows          int
	first, growth int // row r attends to keys 0 to first + r·growth - 1
}

// maxKeys returns the number of keys of the last row. No row has more keys.
func (t *queryTile) maxKeys() int { return t.first + (t.rows-1)*t.growth }

// eachTile calls f with the query tiles of a span for the key heads [lo, hi).
func (a *Attention) eachTile(s *span, lo, hi int, f func(t queryTile, head, token int)) {
	c := a.sizes
	e, width, group := c.HeadDim, c.Heads*c.HeadDim, c.Heads/c.KVHeads
	for head := lo * group; head < hi*group; head++ {
		for i, rows := 0, 0; i < s.n; i += rows {
			keys, limit, growth := s.sees(s.first + i)
			rows = min(tileQueries, limit-s.first-i)
			f(queryTile{(s.row+i)*width + head*e, width, rows, keys, growth}, head, s.row+i)
		}
	}
}

// Attend stores the new keys and values, and computes the attention of all spans and key heads.
func (t *team) Attend(a *Attention) {
	a.store()
	t.attend(a, (*team).attendPart)
}

// attend runs job for all spans and key heads. Large jobs are split among all members of the team.
func (t *team) attend(a *Attention, job job) {
	operations := 0
	for i := range a.spans {
		s := &a.spans[i]
		operations += 4 * s.n * (s.first + s.n) * a.sizes.Heads * a.sizes.HeadDim
	}
	t.attention = a
	t.run(minSharedOps, operations, job)
}

// store writes keys and values of all rows to the cache.
func (a *Attention) store() {
	c := a.sizes
	e, width := c.HeadDim, c.HeadDim*c.KVHeads
	for _, s := range a.spans {
		for i := range s.n {
			p := s.first + i
			page, slot := s.pages[p/PageLen], p%PageLen
			for g := range c.KVHeads {
				at := (s.row+i)*width + g*e
				to := a.cache.head(a.layer, page, g)
				for j, v := range a.key[at : at+e] {
					to[j*PageLen+slot] = v
				}
				copy(to[(PageLen+slot)*e:][:e], a.value[at:at+e])
			}
		}
	}
}

// eachShare divides all spans and key heads into count parts, and calls f for the part with the given index. If there
// are many spans, a part has whole spans. Otherwise a part has single key heads of spans.
func (a *Attention) eachShare(index, count int, f func(s *span, lo, hi int)) {
	heads := a.sizes.KVHeads
	if len(a.spans) >= 4*count || count == 1 {
		for i := index; i < len(a.spans); i += count {
			f(&a.spans[i], 0, heads)
		}
		return
	}
	for i := index; i < len(a.spans)*heads; i += count {
		f(&a.spans[i/heads], i%heads, i%heads+1)
	}
}

func (t *team) attendPart(index, count int, x *member) {
	a := t.attention
	group := a.sizes.Heads / a.sizes.KVHeads
	a.eachShare(index, count, func(s *span, lo, hi int) {
		if a.lse == nil && s.n <= group {
			x.attendHeads(a, s, lo, hi)
			return
		}
		a.eachTile(s, lo, hi, func(t queryTile, head, token int) {
			b := [1]kernel.AttentionBlock{{
				O: a.o[t.at:], Q: a.q[t.at:], Step: t.step, Rows: t.rows, E: a.sizes.HeadDim, PerRow: t.growth,
				Top: x.tiles.top[:], Sum: x.tiles.sum[:],
			}}
			for at, last := 0, t.maxKeys(); at < last; at += keyBlock {
				a.place(&b[0], s, head/group, at, t.first, last)
				x.x.Attend(b[:]...)
			}
			if a.lse == nil {
				return
			}
			sum := x.tiles.sum[:t.rows]
			kernel.Log(sum, sum)
			for r, top := range x.tiles.top[:t.rows] {
				a.lse[head*a.n+token+r] = top + sum[r]
			}
		})
	})
	x.flush()
}

// attendHeads adds the attention of few tokens to x.tiles.blocks. A block has the query heads of one token and one key
// head.
func (x *member) attendHeads(a *Attention, s *span, lo, hi int) {
	e, group := a.sizes.HeadDim, a.sizes.Heads/a.sizes.KVHeads
	for i := range s.n {
		keys, _, _ := s.sees(s.first + i)
		for at := 0; at < keys; at += keyBlock {
			for head, rows := lo*group, 0; head < hi*group; head += rows {
				if x.tiles.used == len(x.tiles.blocks) {
					x.flush()
				}
				b := &x.tiles.blocks[x.tiles.used]
				x.tiles.used++
				rows = min(tileQueries, group-head%group)
				from := ((s.row+i)*a.sizes.Heads + head) * e
				b.O, b.Q, b.Step, b.Rows, b.E = a.o[from:], a.q[from:], e, rows, e
				b.Top, b.Sum = x.tiles.few[0][head:], x.tiles.few[1][head:]
				a.place(b, s, head/group, at, keys, keys)
			}
		}
	}
}

// flush computes the used blocks of x.tiles.
func (x *member) flush() {
	x.x.Attend(x.tiles.blocks[:x.tiles.used]...)
	x.tiles.used = 0
}

// place gives b the keys of head g at positions from at to at+keyBlock-1, but below last. The first row attends to the
// keys below first.
func (a *Attention) place(b *kernel.AttentionBlock, s *span, g, at, first, last int) {
	b.Width, b.Count, b.First, b.Last = min(keyBlock, last-at), first-at, at == 0, at+keyBlock >= last
	pages := s.pages[at/PageLen:]
	for i := range b.Pages {
		b.Pages[i] = nil
		if i*PageLen < b.Width {
			b.Pages[i] = a.cache.head(a.layer, pages[i], g)
		}
	}
}

// AttendGrad computes, for all spans and key heads,
//
//	p = e^(q·k - lse),  dv = Σ p·dout,  ds = p·(dout·v - dout·o),  dq = Σ ds·k,  dk = Σ ds·q
//
// Sums over keys and queries are in the order of positions. Sums over a key head's query heads are in the order of the
// heads.
func (t *team) AttendGrad(a *Attention) {
	clear(a.dkey[:a.n*a.sizes.KVHeads*a.sizes.HeadDim])
	clear(a.dvalue[:a.n*a.sizes.KVHeads*a.sizes.HeadDim])
	t.attend(a, (*team).attendGradPart)
}

func (t *team) attendGradPart(index, count int, x *member) {
	a := t.attention
	c := a.sizes
	a.eachShare(index, count, func(s *span, lo, hi int) {
		for g := lo; g < hi; g++ {
			x.unpack(a, g, s)
			at := s.row*c.KVHeads*c.HeadDim + g*c.HeadDim
			a.eachTile(s, g, g+1, func(t queryTile, head, token int) {
				for r := range t.rows {
					x.tiles.lse[r] = a.lse[head*a.n+token+r]
				}
				x.attendTileGrad(a, g, s, t, a.dkey[at:], a.dvalue[at:])
			})
		}
	})
}

// unpack copies the keys and values of key head g to x.tiles: keys as [length, head_dim], and values as pages
// [head_dim, PageLen].
func (x *member) unpack(args *Attention, g int, s *span) {
	a, e, layer := &x.tiles, args.sizes.HeadDim, args.layer
	a.reserve(s.n, e)
	for i, page := range s.pages {
		from, n := args.cache.head(layer, page, g), e*PageLen
		kernel.Transpose(a.keys[i*n:][:n], from[:n], e, PageLen)
		kernel.Transpose(a.values[i*n:][:n], from[n:], PageLen, e)
	}
}

func (x *member) attendTileGrad(args *Attention, g int, s *span, t queryTile, dk, dv []float32) {
	a, e, layer := &x.tiles, args.sizes.HeadDim, args.layer
	dq, dout, o, q := args.dq[t.at:], args.dout[t.at:], args.o[t.at:], args.q[t.at:]
	kvStep := args.sizes.KVHeads * e
	for r := range t.rows {
		a.sum[r] = kernel.Dot(dout[r*t.step:][:e], o[r*t.step:][:e])
	}
	last := t.maxKeys()
	for b := 0; b < last; b += keyBlock {
		width := min(keyBlock, last-b)
		var keys, values [keyBlock / PageLen][]float32
		for k := 0; k < width; k += PageLen {
			keys[k/PageLen] = args.cache.head(layer, s.pages[(b+k)/PageLen], g)
			values[k/PageLen] = a.values[(b+k)*e:][:e*PageLen]
		}
		x.x.Pages(a.scores[:], keyBlock, q, t.step, keys, t.rows, e)
		x.x.Pages(a.slopes[:], keyBlock, dout, t.step, values, t.rows, e)
		kernel.SoftmaxBlockGrad(a.scores[:], a.slopes[:], keyBlock, t.rows, width, t.first-b, t.growth, a.lse[:],
			a.sum[:])
		x.x.Strided(dv[b*kvStep:], kvStep, a.scores[:], 1, keyBlock, dout, t.step, width, e, t.rows, true)
		x.x.Strided(dk[b*kvStep:], kvStep, a.slopes[:], 1, keyBlock, q, t.step, width, e, t.rows, true)
		x.x.Strided(dq, t.step, a.slopes[:], keyBlock, 1, a.keys[b*e:], e, t.rows, e, width, b > 0)
	}
}
