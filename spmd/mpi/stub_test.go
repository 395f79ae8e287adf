//go:build !mpi

package mpi

import (
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

func TestOpenWithoutMPI(t *testing.T) {
	t.Setenv("OMPI_COMM_WORLD_SIZE", "")
	test.Fails(t, test.Err(Open(Options{})), "scripts/build --tags mpi", "Open")
	t.Setenv("OMPI_COMM_WORLD_SIZE", "8")
	t.Setenv("PMIX_NAMESPACE", "7")
	test.Fails(t, test.Err(Open(Options{})), "mpirun started 8 processes", "Open under a launcher")
}
