package kernel

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:generate go run ./internal/asmgen

// best is what this machine can do: read once, never written again.
var best = detect()

func detect() level {
	x := &cpu.X86
	switch {
	case x.HasAVX512F && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX2 && x.HasFMA:
		return avx512
	case x.HasAVX2 && x.HasFMA:
		return avx2
	}
	return portable
}

// A panel is some columns of a product, as the assembly takes them: m rows of C get start + A·B. Steps are in bytes.
type panel struct {
	c, a, b, start   *float32
	cStep, startStep int // from row to row of C and of what the sums begin with; 0 for one row that serves all
	aStep, aCol      int // from row to row and from column to column of A
	bStep            int // from row to row of B
	m, k             int
	whole            int      // 1 when the last vector of columns has no lane off
	mask512          uint64   // the lanes of the last vector, for AVX-512
	mask256          [8]int32 // the same for AVX2
}

// One asm call works on at most so many rows and steps of k: A's block stays in the second-level cache while the panels of B
// pass, and the garbage collector, which cannot interrupt assembly, waits microseconds.
const blockRows, blockK = 256, 256

func productSIMD(lv level, c, b []float32, a matrix[float32], s start[float32], m, n, k int) {
	if m == 0 || n == 0 {
		return
	}
	var zeros [64]float32
	for p := 0; p == 0 || p < k; p += blockK { // once even for k = 0
		for i := 0; i < m; i += blockRows {
			for j, columns := 0, 0; j < n; j += columns {
				columns = panelColumns(lv, n-j)
				t := panel{
					c: &c[i*n+j], cStep: 4 * n, aStep: 4 * a.row, aCol: 4 * a.col, bStep: 4 * n,
					m: min(blockRows, m-i), k: min(blockK, k-p),
				}
				if t.k > 0 {
					t.a, t.b = &a.data[i*a.row+p*a.col], &b[p*n+j]
				}
				switch {
				case s.acc || p > 0:
					t.start, t.startStep = t.c, t.cStep
				case s.bias != nil:
					t.start = &s.bias[j]
				default:
					t.start = &zeros[0]
				}
				t.run(lv, columns)
			}
		}
	}
}

// panelColumns returns how many of the n columns left the next panel takes.
func panelColumns(lv level, n int) int {
	lanes := 8
	if lv == avx512 {
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

func (t *panel) run(lv level, columns int) {
	lanes := 8
	if lv == avx512 {
		lanes = 16
	}
	vectors := (columns + lanes - 1) / lanes
	last := columns - (vectors-1)*lanes
	t.mask512 = 1<<last - 1
	if last == lanes {
		t.whole = 1
	}
	t.mask256 = *(*[8]int32)(tailMasks[8-min(last, 8):])
	switch {
	case lv == avx512 && vectors == 4:
		panel512x4(t)
	case lv == avx512 && vectors == 2:
		panel512x2(t)
	case lv == avx512:
		panel512x1(t)
	case vectors == 2:
		panel256x2(t)
	default:
		panel256x1(t)
	}
}

// tailMasks[8-n:] begins with n lanes on. Never written.
var tailMasks = [16]int32{-1, -1, -1, -1, -1, -1, -1, -1}

func mapSIMD(lv level, o op, dst, x, y []float32, a float32) {
	if len(dst) == 0 {
		return
	}
	d, px, py, n := unsafe.SliceData(dst), unsafe.SliceData(x), unsafe.SliceData(y), len(dst)
	if lv == avx512 {
		switch o {
		case opTanh:
			tanh512(d, px, py, n, a)
		case opTanhGrad:
			tanhGrad512(d, px, py, n, a)
		case opRelu:
			relu512(d, px, py, n, a)
		case opReluGrad:
			reluGrad512(d, px, py, n, a)
		case opExp:
			exp512(d, px, py, n, a)
		case opLog:
			log512(d, px, py, n, a)
		case opAxpy:
			axpy512(d, px, py, n, a)
		case opScale:
			scale512(d, px, py, n, a)
		}
		return
	}
	switch o {
	case opTanh:
		tanh256(d, px, py, n, a)
	case opTanhGrad:
		tanhGrad256(d, px, py, n, a)
	case opRelu:
		relu256(d, px, py, n, a)
	case opReluGrad:
		reluGrad256(d, px, py, n, a)
	case opExp:
		exp256(d, px, py, n, a)
	case opLog:
		log256(d, px, py, n, a)
	case opAxpy:
		axpy256(d, px, py, n, a)
	case opScale:
		scale256(d, px, py, n, a)
	}
}

func adamSIMD(lv level, p, g, m, v []float32, c *adam) {
	if len(p) == 0 {
		return
	}
	if lv == avx512 {
		adam512(&p[0], &g[0], &m[0], &v[0], len(p), c)
	} else {
		adam256(&p[0], &g[0], &m[0], &v[0], len(p), c)
	}
}

func sumSqSIMD(lv level, lanes *[sumLanes]float64, x []float32) {
	whole := len(x) / sumLanes * sumLanes
	if lv == avx512 {
		sumSq512(lanes, unsafe.SliceData(x), whole)
	} else {
		sumSq256(lanes, unsafe.SliceData(x), whole)
	}
	for i, v := range x[whole:] {
		lanes[i] += float64(v) * float64(v)
	}
}

// transposeSIMD transposes the 8×8 blocks that fit into a [m,n], and returns the rows and columns they cover.
func transposeSIMD(dst, a []float32, m, n int) (rows, columns int) {
	rows, columns = m&^7, n&^7
	if rows == 0 {
		return 0, 0
	}
	for j := 0; j < columns; j += 8 {
		transpose8(&dst[j*m], &a[j], 4*m, 4*n, rows/8)
	}
	return rows, columns
}
