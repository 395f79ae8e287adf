package mpi

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrMismatch is wrapped in the error of Open if this binary was not built for the launcher that started
// it. All processes of the job get that error.
var ErrMismatch = errors.New("binary and launcher do not fit")

// Launched returns the number of processes that a launcher started, including this one, and the
// launcher's name: "mpirun" (Open MPI), "mpiexec" (MPICH and others that speak PMI) or "srun". Without a
// launcher it returns 1 and "". It reads only the environment. It ignores the variables of mpirun and
// mpiexec if there is no connection to the launcher, because a shell may have inherited them.
func Launched() (n int, launcher string) {
	// The launcher closest to the process comes first, because the processes of an mpirun inside a
	// Slurm job also see Slurm's variables.
	if n := positive("OMPI_COMM_WORLD_SIZE"); n > 0 && os.Getenv("PMIX_NAMESPACE") != "" {
		return n, "mpirun"
	}
	if n := positive("PMI_SIZE"); n > 0 && speaksPMI() {
		if os.Getenv("HYDI_CONTROL_FD") == "" && os.Getenv("SLURM_STEP_NUM_TASKS") != "" {
			return n, "srun" // Slurm's own PMI sets PMI_SIZE too
		}
		return n, "mpiexec"
	}
	if n := positive("SLURM_STEP_NUM_TASKS"); n > 0 {
		return n, "srun"
	}
	return 1, ""
}

// Leads reports whether this process prints for the whole program before the world exists. The lowest rank of the
// program leads, and so does a process without a launcher. Leads reads only the environment, and ignores its rank
// variables if there is no connection to the launcher. Call Leads before MPI is closed, because closing MPI closes the
// connection.
func Leads() bool {
	n, launcher := Launched()
	rank := ""
	switch launcher {
	case "mpirun":
		rank = os.Getenv("OMPI_COMM_WORLD_RANK")
		// a job of several programs has several first ranks: OMPI_FIRST_RANKS="0 4"
		if slices.Contains(strings.Fields(os.Getenv("OMPI_FIRST_RANKS")), rank) {
			return true
		}
	case "mpiexec":
		rank = os.Getenv("PMI_RANK")
	case "srun":
		if os.Getenv("PMIX_NAMESPACE") != "" || speaksPMI() {
			rank = os.Getenv("SLURM_PROCID")
		}
	}
	r, err := strconv.Atoi(rank)
	return err != nil || r <= 0 || r >= n
}

// positive returns the value of an environment variable if it is a number > 0, and 0 otherwise.
func positive(name string) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// speaksPMI reports whether this process has a PMI connection to the launcher: the address of a port, or
// an inherited socket.
func speaksPMI() bool {
	if os.Getenv("PMI_PORT") != "" {
		return true
	}
	fd, err := strconv.Atoi(os.Getenv("PMI_FD"))
	if err != nil {
		return false
	}
	var about unix.Stat_t
	return unix.Fstat(fd, &about) == nil && about.Mode&unix.S_IFMT == unix.S_IFSOCK
}
