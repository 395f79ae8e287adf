package kernel

import (
	"unsafe"

	"golang.org/x/sys/cpu"
)

//go:generate go run ./internal/asmgen

// best is the highest level of this machine. It is never written again.
var best = detect()

func detect() level {
	x := &cpu.X86
	switch {
	case x.HasAVX512F && x.HasAVX512DQ && x.HasAVX2 && x.HasFMA:
		return avx512
	case x.HasAVX2 && x.HasFMA:
		return avx2
	}
	return portable
}

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
		case opExpLess:
			expLess512(d, px, py, n, a)
		case opSwiGLU:
			swiglu512(d, px, py, n, a)
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
	case opExpLess:
		expLess256(d, px, py, n, a)
	case opSwiGLU:
		swiglu256(d, px, py, n, a)
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

// transposeTile is the number of rows and columns of a that are transposed at a time. Each cache line
// is then read once and written once, however far apart rows are: a tile fits the second-level cache.
const transposeTile = 64

// transposeSIMD transposes the whole 8×8 blocks of a [m,n], and returns the rows and columns that they cover.
func transposeSIMD(dst, a []float32, m, n int) (rows, columns int) {
	rows, columns = m&^7, n&^7
	for i := 0; i < rows; i += transposeTile {
		blocks := min(transposeTile, rows-i) / 8
		for j := 0; j < columns; j += transposeTile {
			for k := j; k < min(j+transposeTile, columns); k += 8 {
				transpose8(&dst[k*m+i], &a[i*n+k], 4*m, 4*n, blocks)
			}
		}
	}
	return rows, columns
}

func copyColumnsSIMD(lv level, dst []float32, dstStep int, src []float32, srcStep, width, n int) {
	if lv == avx512 {
		copyColumns512(&dst[0], &src[0], 4*dstStep, 4*srcStep, width, n)
	} else {
		copyColumns256(&dst[0], &src[0], 4*dstStep, 4*srcStep, width, n)
	}
}

func addColumnsSIMD(lv level, dst []float32, dstStep int, src []float32, srcStep, width, n int) {
	if lv == avx512 {
		addColumns512(&dst[0], &src[0], 4*dstStep, 4*srcStep, width, n)
	} else {
		addColumns256(&dst[0], &src[0], 4*dstStep, 4*srcStep, width, n)
	}
}

func rmsNormSIMD(lv level, y, inv, x, w []float32, m, n int, eps float64) {
	if lv == avx512 {
		rmsNorm512(&y[0], &inv[0], &x[0], &w[0], m, n, eps)
	} else {
		rmsNorm256(&y[0], &inv[0], &x[0], &w[0], m, n, eps)
	}
}

func rmsNormGradSIMD(lv level, g *normGrad) {
	if lv == avx512 {
		rmsNormGrad512(g)
	} else {
		rmsNormGrad256(g)
	}
}

func rotateSIMD(lv level, r *rotation) {
	if lv == avx512 {
		rotate512(r)
	} else {
		rotate256(r)
	}
}

func swigluGradSIMD(lv level, y, gate, up, dy []float32) {
	if lv == avx512 {
		swigluGrad512(&y[0], &gate[0], &up[0], &dy[0], len(y))
	} else {
		swigluGrad256(&y[0], &gate[0], &up[0], &dy[0], len(y))
	}
}

func softmaxSIMD(lv level, s *softmax) {
	if lv == avx512 {
		softmax512(s)
	} else {
		softmax256(s)
	}
}

func softmaxGradSIMD(lv level, s *softmax) {
	if lv == avx512 {
		softmaxGrad512(s)
	} else {
		softmaxGrad256(s)
	}
}

func maxLanesSIMD(lv level, lanes *[sumLanes]float32, x []float32) {
	if lv == avx512 {
		maxLanes512(lanes, &x[0], len(x))
	} else {
		maxLanes256(lanes, &x[0], len(x))
	}
}

func sumExpSIMD(lv level, lanes *[2 * sumLanes]float32, x []float32, top float32) {
	if lv == avx512 {
		sumExp512(lanes, &x[0], len(x), top)
	} else {
		sumExp256(lanes, &x[0], len(x), top)
	}
}

func dotLanesSIMD(lv level, lanes *[sumLanes]float32, x, y []float32) {
	px, py := unsafe.SliceData(x), unsafe.SliceData(y)
	if lv == avx512 {
		dotLanes512(lanes, px, py, len(x))
	} else {
		dotLanes256(lanes, px, py, len(x))
	}
}
