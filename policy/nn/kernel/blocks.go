package kernel

import "fmt"

// A Term is one product A·B of a sum, A [m,K] and B [K,n]. With Transposed, B is given as its
// transpose, [n,K].
type Term struct {
	A, B       []float32
	K          int
	Transposed bool
}

// A Multiplier computes products whose sums are split into blocks in a fixed way, so that several
// processors may later compute some blocks each and get the same bits. It owns the memory for that:
// one goroutine uses a Multiplier at a time. Make it with NewMultiplier.
//
// With one block, an element is one chain of fused multiply-adds over the terms and over k in
// order. It begins with its initial value. With more, the columns of every A fall into that many
// equal pieces (the last ones are shorter where the number does not divide K). Block b is a chain
// over piece b of every term; it begins with 0. The blocks are added as a binary tree,
// ((0+1)+(2+3))+…, and then to the initial value.
type Multiplier struct {
	level level
	pack  []float32 // a strip of B: panels of [k, columns] one after the other
	packA []float32 // some columns of A, for gradients
	tiles []float32 // sums of blocks that wait for their partners in the tree
}

const (
	tileRows    = 192 // rows of C at a time: their piece of A stays in the second-level cache
	tileColumns = 64  // columns of C at a time
	maxTree     = 8   // blocks, at most
	treeLevels  = 4   // log₂ maxTree + 1
	packRows    = 24  // products of fewer rows read B where it is
	stripA      = 48  // columns of A that a gradient takes at a time
)

// NewMultiplier returns a Multiplier for this machine.
func NewMultiplier() *Multiplier { return newMultiplier(best) }

func newMultiplier(lv level) *Multiplier {
	return &Multiplier{
		level: lv, pack: make([]float32, blockDepth*tileColumns), packA: make([]float32, blockDepth*stripA),
		tiles: make([]float32, treeLevels*tileRows*tileColumns),
	}
}

// blockDepth is how many steps of k are done at a time.
const blockDepth = 256

// Product sets C [m,n] to the sum of the terms in so many blocks, a power of two up to 8. The
// initial value is C itself with acc, bias [n] in every row unless that is nil, else 0. C overlaps
// no input.
func (x *Multiplier) Product(c []float32, m, n, blocks int, bias []float32, acc bool, terms ...Term) {
	checkLen("product", "c", len(c), m, n)
	if blocks < 1 || blocks > maxTree || blocks&(blocks-1) != 0 {
		panic(fmt.Sprintf("kernel: product: %d blocks", blocks))
	}
	for _, t := range terms {
		checkLen("product", "a", len(t.A), m, t.K)
		checkLen("product", "b", len(t.B), t.K, n)
	}
	if bias != nil {
		checkLen("product", "bias", len(bias), 1, n)
	}
	for i := 0; i < m; i += tileRows {
		rows := min(tileRows, m-i)
		for j := 0; j < n; j += tileColumns {
			x.tile(c[i*n+j:], i, rows, j, min(tileColumns, n-j), n, blocks, bias, acc, terms)
		}
	}
}

// tile computes rows × columns of C from row i and column j on.
func (x *Multiplier) tile(c []float32, i, rows, j, columns, n, blocks int, bias []float32, acc bool, terms []Term) {
	if blocks == 1 {
		s := begin0
		switch {
		case acc:
			s = origin{c, n}
		case bias != nil:
			s = origin{bias[j:], 0}
		}
		x.block(c, n, s, i, rows, j, columns, n, 0, 1, terms)
		return
	}
	const size = tileRows * tileColumns
	level := 0
	for b := range blocks {
		x.block(x.tiles[level*size:], columns, begin0, i, rows, j, columns, n, b, blocks, terms)
		for odd := b; odd&1 == 1; odd >>= 1 {
			level--
			axpy(x.level, x.tiles[level*size:][:rows*columns], 1, x.tiles[(level+1)*size:][:rows*columns])
		}
		level++
	}
	for r := range rows {
		row, sum := c[r*n:][:columns], x.tiles[r*columns:][:columns]
		switch {
		case acc:
			axpy(x.level, row, 1, sum)
		case bias != nil:
			axpy(x.level, sum, 1, bias[j:j+columns])
			copy(row, sum)
		default:
			copy(row, sum)
		}
	}
}

// An origin is what the sums of a tile begin with: row r at data[r·step]; no data for 0.
type origin struct {
	data []float32
	step int
}

var begin0 = origin{}

// block sets the tile at c, of row length cStep, to block b of the terms.
func (x *Multiplier) block(c []float32, cStep int, s origin, i, rows, j, columns, n, b, blocks int, terms []Term) {
	done := false
	for _, t := range terms {
		width := (t.K + blocks - 1) / blocks
		for p, end := min(b*width, t.K), min((b+1)*width, t.K); p < end; p += blockDepth {
			depth := min(blockDepth, end-p)
			x.strip(c, cStep, s, t.A[i*t.K+p:], t.K, 1, t, p, depth, j, rows, columns, n)
			s, done = origin{c, cStep}, true
		}
	}
	if !done { // no step of k at all
		strided(x.level, c, cStep, s, nil, 0, 0, nil, 0, rows, columns, 0)
	}
}

// strip adds depth steps of k, from p on, to the tile at c.
func (x *Multiplier) strip(c []float32, cStep int, s origin, a []float32, aRow, aCol int, t Term, p, depth, j, rows,
	columns, n int) {
	if !t.Transposed && rows < packRows {
		strided(x.level, c, cStep, s, a, aRow, aCol, t.B[p*n+j:], n, rows, columns, depth)
		return
	}
	width := packColumns(x.level)
	for first := 0; first < columns; first += width {
		w := min(width, columns-first)
		panel := x.pack[first*blockDepth:][:depth*w]
		if t.Transposed {
			packTransposed(x.level, panel, t.B[(j+first)*t.K+p:], t.K, depth, w)
		} else {
			packPlain(panel, t.B[p*n+j+first:], n, depth, w)
		}
		from := s
		if s.data != nil {
			from.data = s.data[first:]
		}
		strided(x.level, c[first:], cStep, from, a, aRow, aCol, panel, w, rows, w, depth)
	}
}

// packColumns is the width of a packed panel: the columns that the assembly takes at a time.
func packColumns(lv level) int {
	if lv == avx2 {
		return 16
	}
	return tileColumns
}

// packPlain copies w columns of depth rows.
func packPlain(dst, b []float32, step, depth, w int) {
	for p := range depth {
		copy(dst[p*w:(p+1)*w], b[p*step:])
	}
}

// packTransposed sets dst [depth,w] to the transpose of w rows of b.
func packTransposed(lv level, dst, b []float32, step, depth, w int) {
	p, columns := 0, 0
	if lv != portable {
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

// Gradient adds Aᵀ·B to C, for A [k,m], B [k,n] and C [m,n]: every element goes on as a chain over
// the k rows in order. C overlaps no input.
func (x *Multiplier) Gradient(c, a, b []float32, m, n, k int) {
	checkLen("gradient", "c", len(c), m, n)
	checkLen("gradient", "a", len(a), k, m)
	checkLen("gradient", "b", len(b), k, n)
	width := packColumns(x.level)
	for p := 0; p < k; p += blockDepth {
		depth := min(blockDepth, k-p)
		for j := 0; j < n; j += tileColumns {
			columns := min(tileColumns, n-j)
			for first := 0; first < columns; first += width {
				w := min(width, columns-first)
				packPlain(x.pack[first*blockDepth:], b[p*n+j+first:], n, depth, w)
			}
			for i := 0; i < m; i += stripA {
				rows := min(stripA, m-i)
				packPlain(x.packA, a[p*m+i:], m, depth, rows)
				for first := 0; first < columns; first += width {
					w := min(width, columns-first)
					at := c[i*n+j+first:]
					strided(x.level, at, n, origin{at, n}, x.packA, 1, rows, x.pack[first*blockDepth:], w, rows, w,
						depth)
				}
			}
		}
	}
}

// Strided computes C = A·B, or C += A·B with acc, for matrices that lie in larger ones. Element
// (i,j) of C is c[i·cStep+j], that of A is a[i·aRow+p·aCol], that of B is b[p·bStep+j]. C is [m,n]
// and k the summed axis, at most 256. Each element is one chain over k.
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
	strided(x.level, c, cStep, s, a, aRow, aCol, b, bStep, m, n, k)
}

// strided is Strided that begins with s.
func strided(lv level, c []float32, cStep int, s origin, a []float32, aRow, aCol int, b []float32, bStep, m, n, k int) {
	if lv != portable {
		stridedSIMD(lv, c, cStep, s, a, aRow, aCol, b, bStep, m, n, k)
		return
	}
	for i := range m {
		row := c[i*cStep:][:n]
		switch {
		case s.data == nil:
			clear(row)
		case &s.data[i*s.step] != &row[0]:
			copy(row, s.data[i*s.step:][:n])
		}
		for p := range k {
			ap, bp := a[i*aRow+p*aCol], b[p*bStep:][:n]
			for j := range row {
				row[j] += ap * bp[j]
			}
		}
	}
}
