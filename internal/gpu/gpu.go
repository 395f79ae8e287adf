// Package gpu finds the CUDA devices of this machine, if built with the tag cuda.
package gpu

// A Device is a GPU that is visible to this process.
type Device struct {
	Name   string
	UUID   string
	Memory int64 // bytes
}
