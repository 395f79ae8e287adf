//go:build !amd64

package collectives

// addF32 sets dst to a + b, of its length; dst may be a or b.
func addF32(dst, a, b []float32) { addF32Go(dst, a, b) }

// sumF32 is for processors that have something faster than reduceAll's own way.
func sumF32(dsts, pieces [][]byte, from, end int) int { return from }
