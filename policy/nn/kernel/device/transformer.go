package device

import (
	"math"
	"slices"

	"github.com/rlinf/rlinf/policy/nn"
	cpu "github.com/rlinf/rlinf/policy/nn/kernel"
	"github.com/rlinf/rlinf/tensor"
)

// The methods of this file are the arithmetic of a transformer (policy/lm). Lists of integers are memory of the
// program, and so are arguments and results whose comment says so.

// Reserve makes room for n integers or numbers of the program in a call. A call that needs more makes more room.
func (o *Ops) Reserve(n int) {
	if n > len(o.scratch) {
		o.scratch = make([]int32, max(n, 2*len(o.scratch)))
		o.check("reserve", o.Share(tensor.BytesOf(o.scratch)))
	}
}

// put copies lists of the program to the device. It returns their addresses, and memory for n numbers of a result. The
// last address is that of the result.
func (o *Ops) put(n int, lists ...[]int32) (addresses []uint64, result []float32) {
	size := n
	for _, list := range lists {
		size += len(list)
	}
	o.Reserve(size)
	at := 0
	for _, list := range lists {
		addresses = append(addresses, o.start(o.scratch[at:]))
		at += copy(o.scratch[at:], list)
	}
	o.Upload(tensor.BytesOf(o.scratch[:at]))
	rest := o.scratch[at : at+n]
	return append(addresses, o.start(rest)), tensor.Of(tensor.BytesOf(rest), tensor.F32, n).F32()
}

// start returns the device address of a part of the scratch.
func (o *Ops) start(x []int32) uint64 { return at(o, "scratch", x, len(x)) }

// get copies a result of put to the program.
func (o *Ops) get(to, result []float32) {
	o.Download(tensor.BytesOf(result))
	copy(to, result)
}

// BlockProduct sets c [m,n] to initial values plus the sum of up to three terms, as Product of a kernel.Multiplier. The
// fields Transposed of all terms are equal.
func (o *Ops) BlockProduct(c []float32, m, n, blocks int, initial []float32, terms []cpu.Term) {
	const op, side = "block product", 64
	same := len(initial) == len(c) && len(c) > 0 && &initial[0] == &c[0]
	if t := terms[0]; blocks == 1 && len(terms) == 1 && !t.Transposed && (initial == nil || same || len(initial) == n) {
		bias := initial
		if same {
			bias = nil
		}
		o.tiled(op, products, c, t.A, t.B, bias, m, n, t.K, same)
		return
	}
	start, step := uint64(0), 0
	if initial != nil {
		if start = o.at(op, initial, len(initial)); len(initial) != n {
			step = n
		}
		if len(initial) != n && len(initial) != m*n {
			o.at(op, initial, m*n) // panics
		}
	}
	args := []uint64{o.at(op, c, m*n), start, number(step), number(m), number(n), number(blocks)}
	for _, t := range terms {
		width := t.Width
		if width == 0 {
			width = parts(t.K, blocks)
		}
		args = append(args, o.at(op, t.A, m*t.K), o.at(op, t.B, t.K*n), number(t.K), number(width))
	}
	k, tile := [2]kernel{treePlain, treeTransposed}, side
	if parts(m, side)*parts(n, side) < manyTiles {
		k, tile = [2]kernel{treePlainSmall, treeTransposedSmall}, 16
	}
	which := k[0]
	if terms[0].Transposed {
		which = k[1]
	}
	o.run(op, which, parts(n, tile), parts(m, tile), args...)
}

// lanesPerRow is the number of threads that compute a row, where sums of rows have sixteen lanes.
const lanesPerRow = 16

// rows launches a kernel with sixteen threads for each of n rows.
func (o *Ops) rows(op string, k kernel, n int, args ...uint64) {
	o.run(op, k, parts(n, Threads/lanesPerRow), 1, args...)
}

// RMSNorm sets y [m,n] to w∘x·inv, and inv [m] to 1/√(mean x² + eps). y may be x.
func (o *Ops) RMSNorm(y, inv, x, w []float32, m, n int, eps float64) {
	const op = "rms norm"
	o.rows(op, rmsNorm, m, o.at(op, y, m*n), o.at(op, inv, m), o.at(op, x, m*n), o.at(op, w, n), number(m), number(n),
		math.Float64bits(eps))
}

// RMSNormGrad sets dx [m,n] to the gradient of x for y = RMSNorm(x), or adds it with acc. Unless dw is nil, it adds the
// gradient of w to dw [blocks,n]. A token has heads rows.
func (o *Ops) RMSNormGrad(dx, dw, dy, x, w, inv []float32, m, n, heads int, acc bool) {
	const op = "rms norm gradient"
	of, from, by := o.at(op, dy, m*n), o.at(op, x, m*n), o.at(op, inv, m)
	if dw != nil {
		o.each(op, rmsNormSums, len(dw), o.at(op, dw, len(dw)), of, from, by, number(m), number(n), number(heads),
			number(heads*n/len(dw)))
	}
	o.rows(op, rmsNormGrad, m, o.at(op, dx, m*n), of, from, o.at(op, w, n), by, number(m), number(n), flag(acc))
}

// Rotate rotates the heads of queries q [rows,heads,2·half] and of keys [rows,keyHeads,2·half], and multiplies queries
// by scale.
func (o *Ops) Rotate(q, keys, cos, sin []float32, rows, heads, keyHeads, half int, scale float32, inverse bool) {
	const op = "rotate"
	o.each(op, rotate, rows*(heads+keyHeads)*half, o.at(op, q, rows*heads*2*half), o.at(op, keys, rows*keyHeads*2*half),
		o.at(op, cos, rows*half), o.at(op, sin, rows*half), number(rows), number(heads), number(keyHeads), number(half),
		float(scale), flag(inverse))
}

// SwiGLU sets y to gate·σ(gate)·up.
func (o *Ops) SwiGLU(y, gate, up []float32) {
	const op = "swiglu"
	n := len(y)
	o.each(op, swiglu, n, o.at(op, y, n), o.at(op, gate, n), o.at(op, up, n), number(n))
}

// SwiGLUGrad replaces gate and up with their gradients, and sets y to the result of SwiGLU, whose gradient is dy.
func (o *Ops) SwiGLUGrad(y, gate, up, dy []float32) {
	const op = "swiglu gradient"
	n := len(y)
	o.each(op, swigluGrad, n, o.at(op, y, n), o.at(op, gate, n), o.at(op, up, n), o.at(op, dy, n), number(n))
}

// Embed sets each row of y [n,width] to the embedding of an id: a row of table, or a column if transposed is set. It
// leaves out ids below 0.
func (o *Ops) Embed(y, table []float32, ids []int32, width int, transposed bool) {
	const op = "embed"
	lists, _ := o.put(0, ids)
	n := len(ids)
	o.each(op, embedTokens, n*width, o.at(op, y, n*width), o.at(op, table, len(table)), lists[0], number(n),
		number(width), number(len(table)/width), flag(transposed))
}

// AddEmbeddings adds row i of x [n,width] to column ids[i] of grad [width,vocabulary]. No id stands twice.
func (o *Ops) AddEmbeddings(grad, x []float32, ids []int32, width int) {
	const op = "add embeddings"
	lists, _ := o.put(0, ids)
	n := len(ids)
	o.each(op, addEmbeddings, n*width, o.at(op, grad, len(grad)), o.at(op, x, n*width), lists[0], number(n),
		number(width), number(len(grad)/width))
}

// pairs returns the rows of a call that are inside dst and src, with equal rows of dst one after the other.
func pairs(to, from nn.Rows, width, n, dst, src int) (rows [][2]int32) {
	for i := range n {
		t, f := to.At(i), from.At(i)
		if t >= 0 && f >= 0 && (t+1)*width <= dst && (f+1)*width <= src {
			rows = append(rows, [2]int32{int32(t), int32(f)})
		}
	}
	slices.SortStableFunc(rows, func(a, b [2]int32) int { return int(a[0]) - int(b[0]) })
	return rows
}

// CopyRows sets n rows of dst to rows of src. Indices are memory of the program.
func (o *Ops) CopyRows(dst []float32, to nn.Rows, src []float32, from nn.Rows, scale []float32, width, n int) {
	const op = "copy rows"
	if scale != nil {
		missing("CopyRows with a scale")
	}
	var tos, froms []int32
	for _, p := range pairs(to, from, width, n, len(dst), len(src)) {
		if k := len(tos); k > 0 && tos[k-1] == p[0] { // the last copy counts
			froms[k-1] = p[1]
		} else {
			tos, froms = append(tos, p[0]), append(froms, p[1])
		}
	}
	lists, _ := o.put(0, tos, froms)
	o.each(op, copyRows, len(tos)*width, o.at(op, dst, len(dst)), lists[0], o.at(op, src, len(src)), lists[1],
		number(width), number(len(tos)))
}

// AddRows adds n rows of src to rows of dst, in order. Indices are memory of the program.
func (o *Ops) AddRows(dst []float32, to nn.Rows, src []float32, from nn.Rows, scale []float32, width, n int) {
	const op = "add rows"
	if scale != nil {
		missing("AddRows with a scale")
	}
	var tos, ends, froms []int32
	for i, p := range pairs(to, from, width, n, len(dst), len(src)) {
		if k := len(tos); k == 0 || tos[k-1] != p[0] {
			tos, ends = append(tos, p[0]), append(ends, 0)
		}
		froms, ends[len(ends)-1] = append(froms, p[1]), int32(i+1)
	}
	lists, _ := o.put(0, tos, ends, froms)
	o.each(op, addRows, len(tos)*width, o.at(op, dst, len(dst)), lists[0], lists[1], o.at(op, src, len(src)), lists[2],
		number(width), number(len(tos)))
}

// Heads describes the queries and keys of an attention, over rows of tokens.
type Heads struct {
	Rows, Queries, Keys, Size int // tokens, heads of queries and of keys, and elements of a head
	// Tiles has five numbers for each tile of at most 32 queries of one sequence: first row, number of rows, first row
	// of the sequence, first and growth. Row r of the tile attends to the first `first + r·growth` keys of its
	// sequence.
	Tiles []int32
	// KeyTiles has five numbers for each tile of at most 32 keys of one sequence: first row, number of rows, position
	// of the first row in the sequence, first tile of queries, end of the tiles of queries.
	KeyTiles []int32
}

// numbers are the last arguments of kernels of attention.
func (h *Heads) numbers() []uint64 {
	return []uint64{number(h.Rows), number(h.Queries), number(h.Keys), number(h.Size)}
}

// Attend sets the output out and lse [heads,rows], log Σ e^score. Arguments may be longer.
func (o *Ops) Attend(out, lse, q, keys, values []float32, h *Heads) {
	const op = "attend"
	queries, kept := h.Rows*h.Queries*h.Size, h.Rows*h.Keys*h.Size
	of := func(x []float32, n int) uint64 { return o.at(op, x[:n], n) }
	lists, _ := o.put(0, h.Tiles)
	o.run(op, attend, len(h.Tiles)/5, h.Queries, append([]uint64{of(out, queries), of(lse, h.Rows*h.Queries),
		of(q, queries), of(keys, kept), of(values, kept), lists[0]}, h.numbers()...)...)
}

// AttendGrad sets the gradients of queries, keys and values. means [heads,rows] is scratch.
func (o *Ops) AttendGrad(dq, dkeys, dvalues, means, q, keys, values, out, dout, lse []float32, h *Heads) {
	const op = "attention gradient"
	queries, kept, each := h.Rows*h.Queries*h.Size, h.Rows*h.Keys*h.Size, h.Rows*h.Queries
	of := func(x []float32, n int) uint64 { return o.at(op, x[:n], n) }
	lists, _ := o.put(0, h.Tiles, h.KeyTiles)
	from, k, v, d := of(q, queries), of(keys, kept), of(values, kept), of(dout, queries)
	mean, logs := of(means, each), of(lse, each)
	o.run(op, attendQueryGrad, len(h.Tiles)/5, h.Queries, append([]uint64{of(dq, queries), mean, from, k, v,
		of(out, queries), d, logs, lists[0]}, h.numbers()...)...)
	o.run(op, attendKeyGrad, len(h.KeyTiles)/5, h.Keys, append([]uint64{of(dkeys, kept), of(dvalues, kept), from,
		k, v, d, logs, mean, lists[0], lists[1]}, h.numbers()...)...)
}

// CrossEntropy computes numbers of rows of logits [width] and their tokens. For each block of columns these are the
// largest logit, Σ e^(logit - largest) and Σ e^(logit - largest)·(logit - largest); then the token's logit follows.
// sums is memory of the program.
func (o *Ops) CrossEntropy(sums, logits []float32, tokens []int32, width, blocks, block int) {
	const op = "cross-entropy"
	n := len(tokens)
	lists, result := o.put(n*(3*blocks+1), tokens)
	o.rows(op, crossEntropy, n*blocks, lists[1], o.at(op, logits, n*width), lists[0], number(n), number(width),
		number(blocks), number(block))
	o.get(sums, result)
}

// CrossEntropyGrad replaces rows of logits [width] with their gradients. facts, memory of the program, has four numbers
// for each row: log Σ e^logit, the entropy, and the gradients of the token's log-probability and of the entropy.
func (o *Ops) CrossEntropyGrad(logits, facts []float32, tokens []int32, width int) {
	const op = "cross-entropy gradient"
	n := len(tokens)
	lists, _ := o.put(0, tokens, tensor.Of(tensor.BytesOf(facts), tensor.I32, 4*n).I32())
	o.each(op, crossEntropyGrad, n*width, o.at(op, logits, n*width), lists[1], lists[0], number(n), number(width))
}

// Largest sets best [n,2], memory of the program, to the largest of each row of logits [width] and to its column. Of
// equal logits it is the first.
func (o *Ops) Largest(best, logits []float32, n, width int) {
	const op = "largest"
	lists, result := o.put(2 * n)
	o.run(op, largest, n, 1, lists[0], o.at(op, logits, n*width), number(width))
	o.get(best, result)
}
