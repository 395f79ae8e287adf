package kernel

// Products with at most dotColumns columns and k ≥ dotMinK use productDots. Products with at most thinColumns columns
// and at least thinMinRows rows use productThin. In both cases, productPanels would leave most lanes idle.
const (
	dotColumns, dotMinK      = 4, 32
	thinColumns, thinMinRows = 8, 16
)

// productSIMD is product in vector code. A is stored by rows if a.row is k, and by columns if a.row is 1.
func productSIMD(c, b []float32, a *matrix[float32], s *start[float32], m, n, k int) {
	switch {
	case a.row == k && n <= dotColumns && k >= dotMinK:
		productDots(c, b, a, s, m, n, k)
	case a.row == 1 && n <= thinColumns && m >= thinMinRows && s.bias == nil:
		productThin(c, b, a, s, m, n, k)
	default:
		productPanels(c, b, a, s, m, n, k)
	}
}

// productPanels computes C in panels, with neighbouring columns in the lanes.
func productPanels(c, b []float32, a *matrix[float32], s *start[float32], m, n, k int) {
	for p := 0; p == 0 || p < k; p += blockK { // runs once even if k is 0
		for i := 0; i < m; i += blockRows {
			for j, columns := 0, 0; j < n; j += columns {
				columns = panelColumns(n - j)
				t := panel{
					c: &c[i*n+j], cStep: 4 * n, aStep: 4 * a.row, aCol: 4 * a.col, bStep: 4 * n,
					m: min(blockRows, m-i), k: min(blockK, k-p),
				}
				if t.k > 0 {
					t.a, t.b = &a.data[i*a.row+p*a.col], &b[p*n+j]
				}
				t.start, t.startStep = begin(s, p, j, t.c, t.cStep, &zeros[0])
				t.run(columns)
			}
		}
	}
}

// A panel has the arguments of the assembly for some columns of a product. The assembly sets m rows of C to start +
// A·B. Steps are in bytes.
type panel struct {
	c, a, b, start   *float32
	cStep, startStep int // from row to row of C and of the initial values; 0 if all rows of C use one row
	aStep, aCol      int // from row to row and from column to column of A
	bStep            int // from row to row of B
	m, k             int
	whole            int         // 1 if the last vector of columns is complete, else 0
	mask512          uint64      // lanes of the last vector, for AVX-512
	mask256          [8]int32    // lanes of the last vector, for AVX2
	ahead            int         // for streams: bytes from the current row of B to the row to prefetch
	pages            [3]*float32 // for pages512x4: matrices B₁ to B₃
	addends, added   int         // length of add, and the number of rows of C to which addends were added
	add              [treeLevels + 1]addend
}

// An addend is a matrix that is added to the final sums. step is the number of bytes from one row to the next.
type addend struct {
	at   *float32
	step int
}

// Limits of rows and of steps of k in one call of the assembly. The block of A stays in the second-level cache for all
// panels of B. Calls must be short, because the garbage collector cannot interrupt assembly.
const blockRows, blockK = 256, 256

// maxColumns is the largest number of columns of a panel.
const maxColumns = 64

// begin returns the initial values of a panel, and the step from one of their rows to the next. The panel begins at the
// element c of C, in column j, with step p of k. The initial values are C itself, the bias, or zeros.
func begin(s *start[float32], p, j int, c *float32, cStep int, zeros *float32) (*float32, int) {
	switch {
	case s.acc || p > 0:
		return c, cStep
	case s.bias != nil:
		return &s.bias[j], 0
	}
	return zeros, 0
}

// panelColumns returns the number of columns of the next panel if n columns are left.
func panelColumns(n int) int {
	lanes := 8
	if best == avx512 {
		lanes = 16
		if n > 3*lanes {
			return min(n, 4*lanes)
		}
	}
	if n > lanes {
		return min(n, 2*lanes)
	}
	return n
}

// run calls the assembly for a panel of the given number of columns.
func (t *panel) run(columns int) {
	lanes := 8
	if best == avx512 {
		lanes = 16
	}
	vectors := (columns + lanes - 1) / lanes
	last := columns - (vectors-1)*lanes
	t.mask512, t.whole = 1<<last-1, 0
	if last == lanes {
		t.whole = 1
	}
	t.mask256 = *(*[8]int32)(tailMasks[16-min(last, 8):])
	switch {
	case best == avx512 && vectors == 4 && t.ahead > 0:
		stream512x4(t)
	case best == avx512 && vectors == 4:
		panel512x4(t)
	case best == avx512 && vectors == 2:
		panel512x2(t)
	case best == avx512:
		panel512x1(t)
	case vectors == 4 && t.ahead > 0:
		stream256x4(t)
	case vectors == 4:
		panel256x4(t)
	case vectors == 2 && t.ahead > 0:
		stream256x2(t)
	case vectors == 2:
		panel256x2(t)
	default:
		panel256x1(t)
	}
}

// zeros are initial values of 0. They are never written.
var zeros [maxColumns]float32

// tailMasks[16-n:] begins with n lanes that are on, for n up to 16. tailMasks is never written.
var tailMasks = [32]int32{-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}

// productDots computes C column by column, with successive k in the lanes. A must be stored by rows. Whether
// productDots is used, and the order of its sums, depend only on n and k. So a row has the same bits in any batch.
func productDots(c, b []float32, a *matrix[float32], s *start[float32], m, n, k int) {
	var column [blockK]float32
	var zero float32
	for p := 0; p < k; p += blockK {
		depth := min(blockK, k-p)
		for j := range n {
			x := b[p:]
			if n > 1 {
				x = column[:depth]
				for q := range x {
					x[q] = b[(p+q)*n+j]
				}
			}
			for i := 0; i < m; i += blockRows {
				t := panel{
					c: &c[i*n+j], a: &a.data[i*a.row+p], b: &x[0], cStep: 4 * n, aStep: 4 * a.row,
					m: min(blockRows, m-i), k: depth, mask512: 1<<(depth%16) - 1,
				}
				t.start, t.startStep = begin(s, p, j, t.c, t.cStep, &zero)
				if best == avx512 {
					dots512(&t)
				} else {
					dots256(&t)
				}
			}
		}
	}
}

// productThin computes Cᵀ = Bᵀ·Aᵀ, with the rows of C in the lanes. A must be stored by columns, so that its data is Aᵀ
// by rows. Each sum is one chain, as in productPanels.
func productThin(c, b []float32, a *matrix[float32], s *start[float32], m, n, k int) {
	var sums [thinColumns * maxColumns]float32 // columns of Cᵀ
	for i, rows := 0, 0; i < m; i += rows {
		rows = panelColumns(m - i)
		block := c[i*n : (i+rows)*n]
		clear(sums[:])
		if s.acc {
			for r := range rows {
				for j := range n {
					sums[j*maxColumns+r] = block[r*n+j]
				}
			}
		}
		for p := 0; p < k; p += blockK {
			t := panel{
				c: &sums[0], start: &sums[0], a: &b[p*n], b: &a.data[p*a.col+i], cStep: 4 * maxColumns,
				startStep: 4 * maxColumns,
				aStep:     4, aCol: 4 * n, bStep: 4 * a.col, m: n, k: min(blockK, k-p),
			}
			t.run(rows)
		}
		for r := range rows {
			for j := range n {
				block[r*n+j] = sums[j*maxColumns+r]
			}
		}
	}
}
