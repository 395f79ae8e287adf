package collectives

import "golang.org/x/sys/cpu"

// addF32 sets dst to a + b, element by element. a and b have at least the length of dst. dst may be a or b.
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

// addF32AVX adds n elements; n must be a multiple of 32.
//
//go:noescape
func addF32AVX(dst, a, b *float32, n int)

// maxSumF32 is the largest number of pieces that sumF32 can sum, because it keeps partial sums in registers.
const maxSumF32 = 8

// sumF32 sums bytes [from, end) of the pieces by the tree over the pieces, and writes the sum to every dst. There are 2
// to maxSumF32 pieces. It sums only whole blocks of 128 bytes, and returns the end of the last block.
func sumF32(dsts, pieces [][]byte, from, end int) int {
	end = from + (end-from)&^127
	if !cpu.X86.HasAVX || from == end {
		return from
	}
	for _, p := range pieces {
		_ = p[:end]
	}
	for _, d := range dsts {
		_ = d[:end]
	}
	sumF32AVX(&dsts[0], &pieces[0], len(dsts), len(pieces), from, end)
	return end
}

// sumF32AVX is like sumF32, but the range must consist of one or more whole blocks.
//
//go:noescape
func sumF32AVX(dsts, pieces *[]byte, nd, np, from, end int)
