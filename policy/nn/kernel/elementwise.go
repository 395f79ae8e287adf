package kernel

import "math"

// An op names an elementwise function that has vector code.
type op uint8

const (
	opTanh op = iota
	opTanhGrad
	opRelu
	opReluGrad
	opExp
	opLog
	opAxpy
	opScale
	opExpLess
	opSwiGLU
)

// Tanh sets dst to tanh x, within 1.5 ulp. dst may be x.
func Tanh[T Float](dst, x []T) {
	checkSame("tanh", "x", len(x), len(dst))
	tanh(best, dst, x)
}

func tanh[T Float](lv level, dst, x []T) {
	if mapped(lv, opTanh, dst, x, nil, 0) {
		return
	}
	for i, v := range x {
		dst[i] = T(math.Tanh(float64(v)))
	}
}

// TanhGrad sets dx to dy·(1 - y²), the derivative through y = tanh x. dx may be dy or y.
func TanhGrad[T Float](dx, dy, y []T) {
	checkSame("tanh grad", "dy", len(dy), len(dx))
	checkSame("tanh grad", "y", len(y), len(dx))
	tanhGrad(best, dx, dy, y)
}

func tanhGrad[T Float](lv level, dx, dy, y []T) {
	if mapped(lv, opTanhGrad, dx, dy, y, 0) {
		return
	}
	for i, v := range y {
		dx[i] = dy[i] * (1 - T(v*v))
	}
}

// Relu sets dst to x where x > 0 or x is NaN, and to 0 elsewhere. dst may be x.
func Relu[T Float](dst, x []T) {
	checkSame("relu", "x", len(x), len(dst))
	relu(best, dst, x)
}

func relu[T Float](lv level, dst, x []T) {
	if mapped(lv, opRelu, dst, x, nil, 0) {
		return
	}
	for i, v := range x {
		if v < 0 {
			v = 0
		}
		dst[i] = v
	}
}

// ReluGrad sets dx to 0 where y ≤ 0, and to dy elsewhere: the derivative through y = relu x. dx may be dy or y.
func ReluGrad[T Float](dx, dy, y []T) {
	checkSame("relu grad", "dy", len(dy), len(dx))
	checkSame("relu grad", "y", len(y), len(dx))
	reluGrad(best, dx, dy, y)
}

func reluGrad[T Float](lv level, dx, dy, y []T) {
	if mapped(lv, opReluGrad, dx, dy, y, 0) {
		return
	}
	for i, v := range y {
		d := dy[i]
		if v <= 0 {
			d = 0
		}
		dx[i] = d
	}
}

// Exp sets dst to e^x, within 1 ulp, including subnormal results. dst may be x.
func Exp[T Float](dst, x []T) {
	checkSame("exp", "x", len(x), len(dst))
	exp(best, dst, x)
}

func exp[T Float](lv level, dst, x []T) {
	if mapped(lv, opExp, dst, x, nil, 0) {
		return
	}
	for i, v := range x {
		dst[i] = T(math.Exp(float64(v)))
	}
}

// Log sets dst to the natural logarithm of x, within 1 ulp: -Inf for 0, NaN below. dst may be x.
func Log[T Float](dst, x []T) {
	checkSame("log", "x", len(x), len(dst))
	log(best, dst, x)
}

func log[T Float](lv level, dst, x []T) {
	if mapped(lv, opLog, dst, x, nil, 0) {
		return
	}
	for i, v := range x {
		dst[i] = T(math.Log(float64(v)))
	}
}

// Axpy adds a·x to dst.
func Axpy[T Float](dst []T, a T, x []T) {
	checkSame("axpy", "x", len(x), len(dst))
	axpy(best, dst, a, x)
}

func axpy[T Float](lv level, dst []T, a T, x []T) {
	if mapped(lv, opAxpy, dst, x, nil, a) {
		return
	}
	for i, v := range x {
		dst[i] += T(a * v)
	}
}

// Scale multiplies dst by a.
func Scale[T Float](dst []T, a T) { scale(best, dst, a) }

func scale[T Float](lv level, dst []T, a T) { scaleTo(lv, dst, a, dst) }

// ScaleTo sets dst to a·x. dst may be x.
func ScaleTo[T Float](dst []T, a T, x []T) {
	checkSame("scale to", "x", len(x), len(dst))
	scaleTo(best, dst, a, x)
}

func scaleTo[T Float](lv level, dst []T, a T, x []T) {
	if mapped(lv, opScale, dst, x, nil, a) {
		return
	}
	for i, v := range x {
		dst[i] = a * v
	}
}

// mapped sets dst to op(x, y, a) with vector code, and returns false if there is none. y is nil for
// functions of x alone.
func mapped[T Float](lv level, o op, dst, x, y []T, a T) bool {
	if !isFloat32[T]() || lv == portable {
		return false
	}
	mapSIMD(lv, o, float32s(dst), float32s(x), float32s(y), float32(a))
	return true
}
