package kernel

import "math"

// Tanh sets dst to tanh x, within 1.5 ulp. dst may be x.
func Tanh[T Float](dst, x []T) {
	checkSame("tanh", "x", len(x), len(dst))
	if vectors(dst) {
		tanhSIMD(address(dst), address(x), nil, len(dst), 0)
		return
	}
	for i, v := range x {
		dst[i] = T(math.Tanh(float64(v)))
	}
}

// TanhGrad sets dx to dy·(1 - y²), the gradient of x for y = tanh x. dx may be dy or y.
func TanhGrad[T Float](dx, dy, y []T) {
	checkSame("tanh grad", "dy", len(dy), len(dx))
	checkSame("tanh grad", "y", len(y), len(dx))
	if vectors(dx) {
		tanhGradSIMD(address(dx), address(dy), address(y), len(dx), 0)
		return
	}
	for i, v := range y {
		dx[i] = dy[i] * (1 - T(v*v))
	}
}

// Relu sets dst to x where x > 0 or x is NaN, and to 0 elsewhere. dst may be x.
func Relu[T Float](dst, x []T) {
	checkSame("relu", "x", len(x), len(dst))
	if vectors(dst) {
		reluSIMD(address(dst), address(x), nil, len(dst), 0)
		return
	}
	for i, v := range x {
		if v < 0 {
			v = 0
		}
		dst[i] = v
	}
}

// ReluGrad sets dx to 0 where y ≤ 0, and to dy elsewhere: the gradient of x for y = relu x. dx may be dy or y.
func ReluGrad[T Float](dx, dy, y []T) {
	checkSame("relu grad", "dy", len(dy), len(dx))
	checkSame("relu grad", "y", len(y), len(dx))
	if vectors(dx) {
		reluGradSIMD(address(dx), address(dy), address(y), len(dx), 0)
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
	if vectors(dst) {
		expSIMD(address(dst), address(x), nil, len(dst), 0)
		return
	}
	for i, v := range x {
		dst[i] = T(math.Exp(float64(v)))
	}
}

// Log sets dst to the natural logarithm of x, within 1 ulp: -Inf for 0, and NaN for x < 0. dst may be x.
func Log[T Float](dst, x []T) {
	checkSame("log", "x", len(x), len(dst))
	if vectors(dst) {
		logSIMD(address(dst), address(x), nil, len(dst), 0)
		return
	}
	for i, v := range x {
		dst[i] = T(math.Log(float64(v)))
	}
}

// Axpy adds a·x to dst.
func Axpy[T Float](dst []T, a T, x []T) {
	checkSame("axpy", "x", len(x), len(dst))
	if vectors(dst) {
		axpySIMD(address(dst), address(x), nil, len(dst), float32(a))
		return
	}
	for i, v := range x {
		dst[i] += T(a * v)
	}
}

// Scale multiplies dst by a.
func Scale[T Float](dst []T, a T) { ScaleTo(dst, a, dst) }

// ScaleTo sets dst to a·x. dst may be x.
func ScaleTo[T Float](dst []T, a T, x []T) {
	checkSame("scale to", "x", len(x), len(dst))
	if vectors(dst) {
		scaleSIMD(address(dst), address(x), nil, len(dst), float32(a))
		return
	}
	for i, v := range x {
		dst[i] = a * v
	}
}
