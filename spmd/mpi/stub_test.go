//go:build !mpi

package mpi

import (
	"strings"
	"testing"
)

func TestOpenWithoutMPI(t *testing.T) {
	t.Setenv("OMPI_COMM_WORLD_SIZE", "")
	if _, err := Open(Options{}); err == nil || !strings.Contains(err.Error(), "scripts/build --tags mpi") {
		t.Errorf("Open: %v, want an error that names the build command", err)
	}
	t.Setenv("OMPI_COMM_WORLD_SIZE", "8")
	t.Setenv("PMIX_NAMESPACE", "7")
	if _, err := Open(Options{}); err == nil || !strings.Contains(err.Error(), "mpirun started 8 processes") {
		t.Errorf("Open under a launcher: %v, want an error that names it", err)
	}
}
