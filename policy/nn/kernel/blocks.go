package kernel

import "fmt"

// A Term is one product A·B in a sum, with A [m,K] and B [K,n]. If Transposed is set, the field B holds the transpose,
// [n,K]. Width is the number of steps of k in a block. If Width is 0, it is K divided by the number of blocks, rounded
// up. The last blocks may have fewer steps, or none.
type Term struct {
	A, B       []float32
	K          int
	Width      int
	Transposed bool
}

// A Multiplier computes products whose sums are split into blocks in a fixed way. So several ranks can compute some of
// the blocks each, and the bits of the result are the same. A Multiplier has scratch memory, so only one goroutine at a
// time may use it. Make it with NewMultiplier.
//
// With one block, an element is its initial value plus one chain of fused multiply-adds, over the terms and over k in
// order. With more blocks, the columns of every A are split into pieces of Term.Width columns, one piece for each
// block. Block b is a chain that starts with 0 and runs over piece b of every term. The blocks are added as a binary
// tree, ((0+1)+(2+3))+…. The initial value is added last.
type Multiplier struct {
	pack   []float32    // panels of B, each [k, columns], one after the other
	packA  []float32    // columns of A, for gradients
	tiles  []float32    // sums of blocks that wait for their partners in the tree
	pieces []piece      // pieces of the sums of the current product
	scores []float32    // scores of an AttentionBlock
	few    [8]attention // blocks of few queries
}

const (
	tileRows     = 192  // rows of C at a time: their part of A fits the second-level cache
	treeRows     = 48   // rows of C at a time if there are several blocks: their sums fit the first-level cache
	tileColumns  = 64   // columns of C at a time
	maxTree      = 8    // largest number of blocks
	treeLevels   = 4    // log₂ maxTree + 1
	packRows     = 128  // products of fewer rows do not pack B
	fewRows      = 5    // up to this number of rows, products without packing take fewDepth steps
	fewDepth     = 16   // steps of k at a time, without packing, for at most fewRows rows
	streamDepth  = 64   // steps of k at a time, without packing, for more rows
	stripA       = 48   // columns of A at a time in a gradient
	stripB       = 1024 // columns of B that a gradient packs at a time
	stridedDepth = 1024 // a gradient packs A if rows of A are more than this number of bytes apart
	packDepth    = 2048 // with more steps of k, a strip of columns is packed again for each tile of rows
	blockDepth   = 256  // steps of k at a time, with packing
	partRows     = 8    // if ProductPart splits the rows, parts have multiples of partRows rows
	partColumns  = 32   // if ProductPart splits the columns, parts have multiples of partColumns columns
)

// NewMultiplier returns a Multiplier for this machine.
func NewMultiplier() *Multiplier { return new(Multiplier) }

// Product sets C [m,n] to its initial value plus the sum of the terms. blocks is a power of two up to 8. The initial
// value is initial [m,n], which may be C; or initial [n] for every row; or 0 if initial is nil. C must not overlap
// another input.
func (x *Multiplier) Product(c []float32, m, n, blocks int, initial []float32, terms ...Term) {
	x.ProductPart(0, 1, c, m, n, blocks, initial, terms...)
}

// ProductPart computes the part of a Product with the given index, from 0 to parts-1. The bits do not depend on the
// number of parts. Several Multipliers can compute parts at the same time.
func (x *Multiplier) ProductPart(index, parts int, c []float32, m, n, blocks int, initial []float32,
	terms ...Term) {
	checkLen("product", "c", len(c), m, n)
	if blocks < 1 || blocks > maxTree || blocks&(blocks-1) != 0 {
		panic(fmt.Sprintf("kernel: product: %d blocks", blocks))
	}
	stream := m < packRows
	for _, t := range terms {
		checkLen("product", "a", len(t.A), m, t.K)
		checkLen("product", "b", len(t.B), t.K, n)
		if t.Width > 0 && blocks*t.Width < t.K {
			panic(fmt.Sprintf("kernel: product: %d blocks of %d steps for %d", blocks, t.Width, t.K))
		}
		stream = stream && !t.Transposed
	}
	p := blocked{c: c, n: n, blocks: blocks, initial: origin{initial, 0}, terms: terms}
	if initial != nil && len(initial) != n {
		checkLen("product", "initial", len(initial), m, n)
		p.initial.step = n
	}
	rows, columns := share{0, m}, share{0, n}
	if m >= 2*tileRows {
		rows = rows.part(index, parts, partRows)
	} else {
		columns = columns.part(index, parts, partColumns)
	}
	if rows.size() == 0 || columns.size() == 0 {
		return
	}
	if stream {
		depth := streamDepth
		if m <= fewRows {
			depth = fewDepth
		}
		x.plan(&p, depth)
		p.stream = true
		x.tile(&p, rows, columns)
		return
	}
	depth, height := x.plan(&p, blockDepth), tileRows
	if p.once = depth <= packDepth; p.once && blocks > 1 {
		height = treeRows
	}
	for j := columns.from; j < columns.to; j += tileColumns {
		strip := share{j, min(j+tileColumns, columns.to)}
		if p.once {
			x.pack = grown(x.pack, depth*tileColumns)
			for _, q := range x.pieces {
				x.packPiece(x.pack[q.offset*strip.size():], terms[q.term], q, strip, n)
			}
		}
		for i := rows.from; i < rows.to; i += height {
			x.tile(&p, share{i, min(i+height, rows.to)}, strip)
		}
	}
}

// A blocked has the arguments of a Product in blocks.
type blocked struct {
	c         []float32
	n, blocks int
	initial   origin
	terms     []Term

	stream bool // B is read without packing
	once   bool // a strip of columns is packed once, for all rows
}

// A share is the range [from, to) of rows or of columns.
type share struct{ from, to int }

func (s share) size() int { return s.to - s.from }

// part splits s into parts of about equal size, and returns the part with the given index. The size of each part is a
// multiple of unit, except for the last part.
func (s share) part(index, parts, unit int) share {
	units := (s.size() + unit - 1) / unit
	return share{min(s.from+units*index/parts*unit, s.to), min(s.from+units*(index+1)/parts*unit, s.to)}
}

// A piece is the range [p, p+depth) of k in one term and one block. offset is the sum of the depths of the earlier
// pieces.
type piece struct{ block, term, p, depth, offset int }

// plan splits the sums of a product into pieces of at most maxDepth steps of k, and sets x.pieces. It returns the total
// number of steps.
func (x *Multiplier) plan(p *blocked, maxDepth int) int {
	x.pieces = x.pieces[:0]
	steps := 0
	for b := range p.blocks {
		for i, t := range p.terms {
			width := t.Width
			if width == 0 {
				width = (t.K + p.blocks - 1) / p.blocks
			}
			for k, end := min(b*width, t.K), min((b+1)*width, t.K); k < end; k += maxDepth {
				q := piece{b, i, k, min(maxDepth, end-k), steps}
				x.pieces = append(x.pieces, q)
				steps += q.depth
			}
		}
	}
	return steps
}

// tile computes the given rows and columns of C.
func (x *Multiplier) tile(p *blocked, rows, columns share) {
	c := p.c[rows.from*p.n+columns.from:]
	first := p.initial
	if first.data != nil {
		first.data = first.data[rows.from*first.step+columns.from:]
	}
	if p.blocks == 1 {
		x.block(p, x.pieces, origin{c, p.n}, origin{c, p.n}, first, nil, rows, columns)
		return
	}
	size := rows.size() * columns.size()
	x.tiles = grown(x.tiles, treeLevels*size)
	waiting := func(i int) origin { return origin{x.tiles[i*size:], columns.size()} }
	level, pieces := 0, x.pieces
	for b := range p.blocks {
		own := 0
		for own < len(pieces) && pieces[own].block == b {
			own++
		}
		var add [treeLevels + 1]origin
		n := 0
		for odd := b; odd&1 == 1; odd >>= 1 {
			add[n] = waiting(level - 1 - n)
			n++
		}
		to := waiting(level - n)
		if b == p.blocks-1 {
			to = origin{c, p.n}
			if first.data != nil {
				add[n] = first
				x.block(p, pieces[:own], to, waiting(level), origin{}, add[:n+1], rows, columns)
				return
			}
		}
		x.block(p, pieces[:own], to, waiting(level), origin{}, add[:n], rows, columns)
		level, pieces = level-n+1, pieces[own:]
	}
}

// An origin is a matrix of initial values, of addends or of results: row r begins at data[r·step]. As initial values,
// nil data means 0.
type origin struct {
	data []float32
	step int
}

// block computes one block of a tile, and writes it to dst. It adds the sums of pieces to the initial values, and then
// adds the addends. scratch is memory for the sums after each piece but the last.
func (x *Multiplier) block(p *blocked, pieces []piece, dst, scratch, initial origin, addends []origin,
	rows, columns share) {
	n := columns.size()
	if len(pieces) == 0 { // the block has no steps of k
		strided(dst.data, dst.step, initial, nil, 0, 0, nil, 0, rows.size(), n, 0, addends, 0)
	}
	for i, q := range pieces {
		sums, last := scratch, addends
		if i == len(pieces)-1 {
			sums = dst
		} else {
			last = nil
		}
		t := p.terms[q.term]
		a := t.A[rows.from*t.K+q.p:]
		if p.stream {
			strided(sums.data, sums.step, initial, a, t.K, 1, t.B[q.p*p.n+columns.from:], p.n, rows.size(), n,
				q.depth, last, q.depth)
		} else {
			x.panels(p, sums, initial, a, q, rows.size(), columns, last)
		}
		initial = sums
	}
}

// panels computes one piece of the sums, with B in packed panels, and writes the result to dst. It adds the piece to
// the initial values, and then adds the addends.
func (x *Multiplier) panels(p *blocked, dst, initial origin, a []float32, q piece, rows int, columns share,
	addends []origin) {
	n, t := columns.size(), p.terms[q.term]
	pack := x.pack
	if p.once {
		pack = pack[q.offset*n:]
	} else {
		x.pack = grown(x.pack, blockDepth*tileColumns)
		pack = x.pack
		x.packPiece(pack, t, q, columns, p.n)
	}
	width := packColumns()
	for j := 0; j < n; j += width {
		w := min(width, n-j)
		var part [treeLevels + 1]origin
		for i, o := range addends {
			part[i] = origin{o.data[j:], o.step}
		}
		start := initial
		if start.data != nil {
			start.data = start.data[j:]
		}
		strided(dst.data[j:], dst.step, start, a, t.K, 1, pack[j*q.depth:], w, rows, w, q.depth,
			part[:len(addends)], 0)
	}
}

// packPiece packs the given columns of B for the steps of q, one panel after the other. step is the length of a row of
// B.
func (x *Multiplier) packPiece(dst []float32, t Term, q piece, columns share, step int) {
	n, width := columns.size(), packColumns()
	for j := 0; j < n; j += width {
		w := min(width, n-j)
		panel := dst[j*q.depth:][:q.depth*w]
		if t.Transposed {
			packTransposed(panel, t.B[(columns.from+j)*t.K+q.p:], t.K, q.depth, w)
		} else {
			packPlain(panel, t.B[q.p*step+columns.from+j:], step, q.depth, w)
		}
	}
}

// grown returns x if it has at least n elements, and otherwise new memory. The old content is lost then.
func grown(x []float32, n int) []float32 {
	if len(x) >= n {
		return x
	}
	return make([]float32, n)
}

// packColumns returns the number of columns of a packed panel. The assembly processes these columns together.
func packColumns() int {
	if best == avx2 {
		return 16
	}
	return tileColumns
}

// packPlain sets dst [depth,w] to the first w elements of depth rows of b. Rows of b begin step elements apart.
func packPlain(dst, b []float32, step, depth, w int) {
	CopyColumns(dst, w, b, step, w, depth)
}

// packTransposed sets dst [depth,w] to the transpose of the first depth elements of w rows of b. Rows of b begin step
// elements apart.
func packTransposed(dst, b []float32, step, depth, w int) {
	p, columns := 0, 0
	if best != portable {
		p, columns = depth&^7, w&^7
		packSIMD(dst, b, step, p, w, columns)
	}
	for q := range depth {
		first := columns
		if q >= p {
			first = 0
		}
		for j := first; j < w; j++ {
			dst[q*w+j] = b[j*step+q]
		}
	}
}

// Gradient adds Aᵀ·B to C, for A [k,m], B [k,n] and C [m,n]. Each element of C is one chain, which starts with the old
// value of the element and runs over the k rows in order. C must not overlap an input.
func (x *Multiplier) Gradient(c, a, b []float32, m, n, k int) { x.GradientPart(0, 1, c, a, b, m, n, k) }

// GradientPart computes one part of a Gradient. The bits do not depend on the number of parts. For index and parts see
// ProductPart.
func (x *Multiplier) GradientPart(index, parts int, c, a, b []float32, m, n, k int) {
	checkLen("gradient", "c", len(c), m, n)
	checkLen("gradient", "a", len(a), k, m)
	checkLen("gradient", "b", len(b), k, n)
	rows, columns := share{0, m}, share{0, n}
	if m >= n {
		rows = rows.part(index, parts, partRows)
	} else {
		columns = columns.part(index, parts, partColumns)
	}
	if rows.size() == 0 || columns.size() == 0 {
		return
	}
	for p := 0; p < k; p += blockDepth {
		depth := min(blockDepth, k-p)
		for j := columns.from; j < columns.to; j += stripB {
			strip := share{j, min(j+stripB, columns.to)}
			x.pack = grown(x.pack, blockDepth*strip.size())
			x.packPiece(x.pack, Term{B: b}, piece{p: p, depth: depth}, strip, n)
			for i := rows.from; i < rows.to; i += stripA {
				x.gradientStrip(c, a, p, depth, share{i, min(i+stripA, rows.to)}, strip, m, n)
			}
		}
	}
}

// gradientStrip adds to C the product of some columns of A, transposed, and the packed columns of B.
func (x *Multiplier) gradientStrip(c, a []float32, p, depth int, rows, columns share, m, n int) {
	a, step := a[p*m+rows.from:], m
	if 4*m > stridedDepth {
		x.packA = grown(x.packA, blockDepth*stripA)
		packPlain(x.packA, a, m, depth, rows.size())
		a, step = x.packA, rows.size()
	}
	width := packColumns()
	for j := 0; j < columns.size(); j += width {
		w := min(width, columns.size()-j)
		at := c[rows.from*n+columns.from+j:]
		strided(at, n, origin{at, n}, a, 1, step, x.pack[j*depth:], w, rows.size(), w, depth, nil, 0)
	}
}

// Strided computes C = A·B, or C += A·B with acc, for submatrices of larger matrices:
//
//	C[i,j] = c[i·cStep+j],    A[i,p] = a[i·aRow+p·aCol],    B[p,j] = b[p·bStep+j]
//
// C is [m,n]. k is the length of the summed axis, at most 256. Each element of C is one chain over k.
func (x *Multiplier) Strided(c []float32, cStep int, a []float32, aRow, aCol int, b []float32, bStep, m, n, k int,
	acc bool) {
	if m == 0 || n == 0 {
		return
	}
	if k > 0 {
		_, _, _ = c[(m-1)*cStep+n-1], a[(m-1)*aRow+(k-1)*aCol], b[(k-1)*bStep+n-1]
	}
	s := origin{}
	if acc {
		s = origin{c, cStep}
	}
	strided(c, cStep, s, a, aRow, aCol, b, bStep, m, n, k, nil, 0)
}

// maxPages is the largest number of matrices for Pages. Each of these matrices has pageColumns columns.
const maxPages, pageColumns = 4, 16

// Pages computes C = A·(B₀ B₁ …) for one to four matrices B side by side, each [k,16]. Unused pages are nil. The
// elements are C[i,j] = c[i·cStep+j] and A[i,p] = a[i·aRow+p]. C has m rows. Each element of C is one chain over k,
// which is at most 256. Rows of C must have room for 64 columns; columns of nil pages are overwritten.
func (x *Multiplier) Pages(c []float32, cStep int, a []float32, aRow int, pages [maxPages][]float32, m, k int) {
	if best == avx512 && pages[1] != nil {
		_, _ = c[(m-1)*cStep+maxPages*pageColumns-1], a[(m-1)*aRow+k-1]
		for _, p := range pages {
			if p != nil {
				_ = p[k*pageColumns-1]
			}
		}
		pagesSIMD(c, cStep, a, aRow, pages, m, k)
		return
	}
	for i, p := range pages {
		if p != nil {
			x.Strided(c[i*pageColumns:], cStep, a, aRow, 1, p, pageColumns, m, pageColumns, k, false)
		}
	}
}

// strided is Strided with initial values s. It adds the addends to the final sums, one after the other. It prefetches
// rows of B; distance is the number of rows by which it looks ahead. 0 means no prefetch.
func strided(c []float32, cStep int, s origin, a []float32, aRow, aCol int, b []float32, bStep, m, n, k int,
	addends []origin, distance int) {
	if best != portable {
		stridedSIMD(c, cStep, s, a, aRow, aCol, b, bStep, m, n, k, addends, distance)
		return
	}
	var sums [tileColumns]float32
	for i := range m {
		for j := 0; j < n; j += tileColumns {
			sum := sums[:min(tileColumns, n-j)]
			if s.data == nil {
				clear(sum)
			} else {
				copy(sum, s.data[i*s.step+j:])
			}
			for p := range k {
				ap, bp := a[i*aRow+p*aCol], b[p*bStep+j:][:len(sum)]
				for q := range sum {
					sum[q] += ap * bp[q]
				}
			}
			for _, o := range addends {
				for q, v := range o.data[i*o.step+j:][:len(sum)] {
					sum[q] += v
				}
			}
			copy(c[i*cStep+j:], sum)
		}
	}
}
