// Package gpu answers: which CUDA devices can this process use? Without the build tag cuda it finds none.
package gpu

// A Device is a GPU that is visible to this process.
type Device struct {
	Name   string
	UUID   string
	Memory int64 // bytes
}
