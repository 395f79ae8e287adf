package mpi

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrMismatch is wrapped in the error of Open if the launcher cannot start this binary as one job.
// All processes of the job get that error.
var ErrMismatch = errors.New("binary and launcher do not fit")

// Launched returns how many processes a launcher started, this one included, and the launcher's
// name: "mpirun" (Open MPI), "mpiexec" (MPICH and others that speak PMI), "srun". It reads the
// environment only. Without a launcher it returns 1 and "". The variables of mpirun and mpiexec
// count only if the connection to the launcher is there too, because a shell or a script may have
// kept the variables.
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

// Leads reports whether this process speaks for all of the program before there is a world. It
// reads the environment only. The program's lowest rank leads, and so does a process without a
// launcher. If there is a rank but no connection to a launcher, the rank is left over from another
// program, and the process leads. Call Leads before MPI is closed, because that closes the
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

// positive returns the value of the environment variable name if that is a number > 0, otherwise 0.
func positive(name string) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// speaksPMI reports whether this process has the launcher's connection for PMI: the address of a
// port, or a socket that it inherited.
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
