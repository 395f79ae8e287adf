package kernel

import "math"

// ColSum adds up the rows of A [m,n] in order: dst [n] = Σ_i A[i,:], added to dst with acc.
func ColSum[T Float](dst, a []T, m, n int, acc bool) {
	checkLen("col sum", "dst", len(dst), 1, n)
	checkLen("col sum", "a", len(a), m, n)
	colSum(best, dst, a, m, n, acc)
}

func colSum[T Float](lv level, dst, a []T, m, n int, acc bool) {
	one := [1]T{1} // dst [1,n] += 1·A: a product with the left factor 1 everywhere, exact
	product(lv, dst, a, matrix[T]{one[:], 0, 0}, start[T]{acc: acc}, 1, n, m)
}

// Transpose sets dst [n,m] to the transpose of A [m,n].
func Transpose[T Float](dst, a []T, m, n int) {
	checkLen("transpose", "dst", len(dst), n, m)
	checkLen("transpose", "a", len(a), m, n)
	transpose(best, dst, a, m, n)
}

func transpose[T Float](lv level, dst, a []T, m, n int) {
	for i := range m {
		for j, v := range a[i*n : (i+1)*n] {
			dst[j*m+i] = v
		}
	}
}

// Normalize sets dst [m,n] to (x - mean)·inv, kept within ±clip, where mean and inv [n] belong to the columns of x [m,n].
// NaN stays NaN. dst may be x.
func Normalize[T Float](dst, x, mean, inv []T, m, n int, clip T) {
	checkLen("normalize", "dst", len(dst), m, n)
	checkLen("normalize", "x", len(x), m, n)
	checkLen("normalize", "mean", len(mean), 1, n)
	checkLen("normalize", "inv", len(inv), 1, n)
	for i := range m {
		d := dst[i*n : (i+1)*n]
		for j, v := range x[i*n : (i+1)*n] {
			d[j] = min(max((v-mean[j])*inv[j], -clip), clip)
		}
	}
}

// LogSoftmax sets each row of dst [m,n] to x - log Σ_j exp(x_j), for x [m,n] with n ≥ 1. The row's maximum is taken out first, so
// no finite row overflows, and -Inf (a masked action) gives -Inf beside finite elements. dst may be x.
func LogSoftmax[T Float](dst, x []T, m, n int) {
	checkLen("log softmax", "dst", len(dst), m, n)
	checkLen("log softmax", "x", len(x), m, n)
	for i := range m {
		logSoftmaxRow(dst[i*n:(i+1)*n], x[i*n:(i+1)*n])
	}
}

func logSoftmaxRow[T Float](dst, x []T) {
	top := x[0]
	for _, v := range x[1:] {
		top = max(top, v)
	}
	var sum float64
	for _, v := range x {
		sum += math.Exp(float64(v - top))
	}
	log := T(math.Log(sum))
	for j, v := range x {
		dst[j] = v - top - log
	}
}
