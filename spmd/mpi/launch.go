package mpi

import (
	"os"
	"strconv"
)

// Launched returns how many processes a launcher started this one among, and what that launcher is called: "mpirun" (Open MPI), "mpiexec" (MPICH and
// others that speak PMI), "srun". It reads the environment only. Without a launcher it returns 1 and "".
func Launched() (n int, launcher string) {
	// The launcher closest to the process comes first: an mpirun inside a Slurm job leaves Slurm's variables in sight.
	for _, l := range []struct{ size, launcher string }{
		{"OMPI_COMM_WORLD_SIZE", "mpirun"},
		{"PMI_SIZE", "mpiexec"},
		{"SLURM_STEP_NUM_TASKS", "srun"},
	} {
		if n, err := strconv.Atoi(os.Getenv(l.size)); err == nil && n > 0 {
			if l.launcher == "mpiexec" && os.Getenv("HYDI_CONTROL_FD") == "" && os.Getenv("SLURM_STEP_NUM_TASKS") != "" {
				return n, "srun" // Slurm's own PMI sets PMI_SIZE too
			}
			return n, l.launcher
		}
	}
	return 1, ""
}
