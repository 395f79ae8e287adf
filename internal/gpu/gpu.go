// Package gpu finds the CUDA devices of this machine, where the build has the tag cuda.
package gpu

// A Device is a GPU that this process sees.
type Device struct {
	Name   string
	UUID   string
	Memory int64 // bytes
}
