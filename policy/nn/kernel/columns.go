package kernel

import "fmt"

// CopyColumns copies width elements of each of n rows of src to dst. Rows begin dstStep elements apart in dst, and
// srcStep elements apart in src. Rows of src may overlap.
func CopyColumns[E Float | int32](dst []E, dstStep int, src []E, srcStep, width, n int) {
	if !checkInside("copy columns", len(dst), dstStep, len(src), srcStep, width, n) {
		return
	}
	if vectors(dst) { // vector code moves the bits of floats and of integers alike
		copyColumnsSIMD(address(dst), address(src), 4*dstStep, 4*srcStep, width, n)
		return
	}
	for i := range n {
		copy(dst[i*dstStep:][:width], src[i*srcStep:][:width])
	}
}

// AddColumns adds width elements of each of n rows of src to dst, row by row. Rows begin dstStep elements apart in dst,
// and srcStep elements apart in src. Rows of dst may overlap.
func AddColumns[T Float](dst []T, dstStep int, src []T, srcStep, width, n int) {
	if !checkInside("add columns", len(dst), dstStep, len(src), srcStep, width, n) {
		return
	}
	if vectors(dst) {
		addColumnsSIMD(address(dst), address(src), 4*dstStep, 4*srcStep, width, n)
		return
	}
	for i := range n {
		to := dst[i*dstStep:][:width]
		for k, v := range src[i*srcStep:][:width] {
			to[k] += v
		}
	}
}

// checkInside panics unless the rows are inside dst and src. It reports whether they have any elements.
func checkInside(op string, dst, dstStep, src, srcStep, width, n int) bool {
	if n <= 0 || width <= 0 {
		return false
	}
	for _, m := range []struct {
		name      string
		len, step int
	}{{"dst", dst, dstStep}, {"src", src, srcStep}} {
		if m.step < 0 || (n-1)*m.step+width > m.len {
			panic(fmt.Sprintf("kernel: %s: %d elements in %s, expected %d rows of %d, %d apart", op, m.len, m.name, n,
				width, m.step))
		}
	}
	return true
}
