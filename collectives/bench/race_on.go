//go:build race

package bench

// raceFactor is how many bytes of memory a byte of a buffer takes: the race detector has two more for
// each byte of the Go heap, where buffers lie under it.
const raceFactor = 3
