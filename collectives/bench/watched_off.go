//go:build !race

package bench

// watched is how many bytes of memory a byte of a buffer takes.
const watched = 1
