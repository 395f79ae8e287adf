//go:build race

package bench

// raceFactor is how many bytes of memory a byte of a buffer takes. With the race detector buffers are on the Go heap,
// and the detector uses two more bytes for each byte.
const raceFactor = 3
