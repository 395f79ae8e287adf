package kernel

// ColSum sets dst [n] to the sum of the rows of A [m,n], added up in order. With acc it adds this sum to dst.
func ColSum[T Float](dst, a []T, m, n int, acc bool) {
	checkLen("col sum", "dst", len(dst), 1, n)
	checkLen("col sum", "a", len(a), m, n)
	one := [1]T{1} // the sum is the product 1·A, whose left factor is 1 everywhere; it is exact
	product(dst, a, &matrix[T]{one[:], 0, 0}, &start[T]{acc: acc}, 1, n, m)
}

// Transpose sets dst [n,m] to the transpose of A [m,n].
func Transpose[T Float](dst, a []T, m, n int) {
	checkLen("transpose", "dst", len(dst), n, m)
	checkLen("transpose", "a", len(a), m, n)
	var rows, columns int // numbers of rows and columns in whole blocks, which vector code moves
	if vectors(dst) {
		rows, columns = transposeSIMD(float32s(dst), float32s(a), m, n)
	}
	for i := range m {
		first := columns
		if i >= rows {
			first = 0
		}
		for j := first; j < n; j++ {
			dst[j*m+i] = a[i*n+j]
		}
	}
}

// Normalize sets dst [m,n] to (x - mean)·inv, limited to ±clip. mean and inv [n] have an element for each column of x
// [m,n]. NaN stays NaN. dst may be x.
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

// LogSoftmax sets each row of dst [m,n] to x - log Σ_j exp(x_j), for x [m,n] with n ≥ 1. It
// subtracts the row's maximum first, so no finite row overflows. In a row with finite elements, -Inf
// (a masked action) gives -Inf. dst may be x.
func LogSoftmax[T Float](dst, x []T, m, n int) {
	checkLen("log softmax", "dst", len(dst), m, n)
	checkLen("log softmax", "x", len(x), m, n)
	if n == 0 {
		return
	}
	const held = 128 // elements at a time, so that vector code computes exponentials and logarithms
	var exps, sums [held]T
	rows := max(1, held/n)
	for i := 0; i < m; i += rows {
		block := dst[i*n : min(i+rows, m)*n]
		count := len(block) / n
		for r := range count {
			shiftRow(block[r*n:(r+1)*n], x[(i+r)*n:(i+r+1)*n])
		}
		clear(sums[:count])
		for lo := 0; lo < len(block); lo += held { // a single pass unless n > held
			part := block[lo:min(lo+held, len(block))]
			Exp(exps[:len(part)], part)
			width := min(n, len(part))
			for r := range len(part) / width {
				for _, e := range exps[r*width : (r+1)*width] {
					sums[r] += e
				}
			}
		}
		Log(sums[:count], sums[:count])
		for r := range count {
			row := block[r*n : (r+1)*n]
			for j := range row {
				row[j] -= sums[r]
			}
		}
	}
}

// shiftRow sets dst to x minus its largest element.
func shiftRow[T Float](dst, x []T) {
	top := x[0]
	for _, v := range x[1:] {
		top = max(top, v)
	}
	for j, v := range x {
		dst[j] = v - top
	}
}
