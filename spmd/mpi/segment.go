//go:build mpi

package mpi

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
)

// A segment is the name of a file, vader_segment.HOST.UID.JOB.RANK. The file holds the memory that this process shares
// through Open MPI. The name is "" if there is no file. Open MPI removes the file in MPI_Finalize, and mpirun removes
// the files of ranks that ended without it. Neither happens if mpirun is killed, because Open MPI then ends its ranks
// at once.
type segment string

// hideSegment removes this process's file. All processes of the job must have returned from MPI_Init, so that those of
// the node have mapped the file. Its memory then ends with these processes.
func hideSegment() segment {
	rank := cmp.Or(os.Getenv("OMPI_COMM_WORLD_LOCAL_RANK"), os.Getenv("SLURM_LOCALID"))
	maps, _ := os.ReadFile("/proc/self/maps") // an error leaves the file to Open MPI
	for line := range strings.Lines(string(maps)) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), "/")
		file := "/" + rest
		if strings.HasPrefix(filepath.Base(file), "vader_segment.") && filepath.Ext(file) == "."+rank &&
			os.Remove(file) == nil {
			return segment(file)
		}
	}
	return ""
}

// show makes an empty file with this name, because MPI_Finalize warns if it finds no file to remove.
func (s segment) show() {
	if s != "" {
		os.WriteFile(string(s), nil, 0o600)
	}
}

// drop removes the empty file if MPI_Finalize has not.
func (s segment) drop() {
	if s != "" {
		os.Remove(string(s))
	}
}
