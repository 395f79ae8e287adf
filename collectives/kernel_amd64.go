package collectives

import "golang.org/x/sys/cpu"

// addF32 sets dst to a + b, of its length; dst may be a or b.
func addF32(dst, a, b []float32) {
	n := 0
	if cpu.X86.HasAVX {
		n = len(dst) &^ 31
		if n > 0 {
			addF32AVX(&dst[0], &a[:n][0], &b[:n][0], n)
		}
	}
	addF32Go(dst[n:], a[n:], b[n:])
}

// addF32AVX adds n elements, a multiple of 32.
//
//go:noescape
func addF32AVX(dst, a, b *float32, n int)
