//go:build !race

package bench

// raceFactor is the number of bytes of memory per byte of a buffer.
const raceFactor = 1
