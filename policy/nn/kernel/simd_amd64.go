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

// transposeSIMD transposes the 8×8 blocks that fit into a [m,n], and returns the rows and columns
// they cover.
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
