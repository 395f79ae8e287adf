//go:build !amd64

package collectives

// addF32 sets dst to a + b, element by element. a and b have at least the length of dst. dst may be a or b.
func addF32(dst, a, b []float32) { addF32Go(dst, a, b) }

const maxSumF32 = 8

// sumF32 sums nothing on this architecture, so treeSum.reduce sums all bytes.
func sumF32(dsts, pieces [][]byte, from, end int) int { return from }
