//go:build !mpi

package mpi

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/spmd"
)

// Compiled is true if this build includes MPI.
const Compiled = false

// Library returns "", because this build has no MPI library.
func Library() string { return "" }

// Open returns an error that names the build command, because MPI is not in this build.
func Open(Options) (spmd.Transport, error) {
	if n, launcher := Launched(); n > 1 {
		return nil, fmt.Errorf("open mpi: %w: %s started %d processes, but this binary is built without MPI: "+
			"build it with scripts/build --tags mpi, or start it without %s", ErrMismatch, launcher, n, launcher)
	}
	return nil, errors.New("open mpi: this binary is built without MPI: build it with scripts/build --tags mpi")
}
