//go:build race

package bench

// raceFactor is the number of bytes of memory per byte of a buffer. With the race detector buffers are on the Go
// heap, and the detector uses two more bytes for each byte.
const raceFactor = 3
