//go:build !race

package bench

// raceFactor is how many bytes of memory a byte of a buffer takes.
const raceFactor = 1
