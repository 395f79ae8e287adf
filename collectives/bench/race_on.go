//go:build race

package bench

// raceFactor is how many bytes of memory a byte of a buffer takes. With the race detector buffers lie
// on the Go heap, and it uses two more bytes for each of their bytes.
const raceFactor = 3
