package mpi

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
)

// ErrMismatch is in the error of Open when the launcher cannot start this binary as one job: all
// its processes get that error.
var ErrMismatch = errors.New("binary and launcher do not fit")

// Launched returns how many processes a launcher started this one among, and what that launcher is
// called: "mpirun" (Open MPI), "mpiexec" (MPICH and others that speak PMI), "srun". It reads the
// environment only. Without a launcher it returns 1 and "".
func Launched() (n int, launcher string) {
	// The launcher closest to the process comes first: an mpirun inside a Slurm job leaves Slurm's
	// variables in sight.
	for _, l := range []struct{ size, launcher string }{
		{"OMPI_COMM_WORLD_SIZE", "mpirun"},
		{"PMI_SIZE", "mpiexec"},
		{"SLURM_STEP_NUM_TASKS", "srun"},
	} {
		if n, err := strconv.Atoi(os.Getenv(l.size)); err == nil && n > 0 {
			if l.launcher == "mpiexec" && os.Getenv("HYDI_CONTROL_FD") == "" &&
				os.Getenv("SLURM_STEP_NUM_TASKS") != "" {
				return n, "srun" // Slurm's own PMI sets PMI_SIZE too
			}
			return n, l.launcher
		}
	}
	return 1, ""
}

// Leads tells, from the environment alone, whether this process is the one to speak for all of the
// program before there is a world: its lowest rank, or a process without a launcher.
func Leads() bool {
	// a job of several programs has several first ranks: OMPI_FIRST_RANKS="0 4"
	if rank := os.Getenv("OMPI_COMM_WORLD_RANK"); rank != "" {
		return rank == "0" || slices.Contains(strings.Fields(os.Getenv("OMPI_FIRST_RANKS")), rank)
	}
	for _, name := range []string{"PMI_RANK", "SLURM_PROCID"} {
		if rank := os.Getenv(name); rank != "" {
			return rank == "0"
		}
	}
	return true
}
