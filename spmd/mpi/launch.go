package mpi

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrMismatch is in the error of Open when the launcher cannot start this binary as one job: all
// its processes get that error.
var ErrMismatch = errors.New("binary and launcher do not fit")

// Launched returns how many processes a launcher started this one among, and what that launcher is
// called: "mpirun" (Open MPI), "mpiexec" (MPICH and others that speak PMI), "srun". It reads the
// environment only. Without a launcher it returns 1 and "". The variables of mpirun and mpiexec
// count only with the connection to the launcher: a shell or a script may have kept them.
func Launched() (n int, launcher string) {
	// The launcher closest to the process comes first: an mpirun inside a Slurm job leaves Slurm's
	// variables in sight.
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

// Leads tells, from the environment alone, whether this process is the one to speak for all of the
// program before there is a world: its lowest rank, or a process without a launcher. A rank without
// a launcher's connection is a leftover of another program, and such a process leads. Ask before
// MPI is closed, because that closes the connection.
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

// positive returns the number > 0 in the variable name, or 0 if there is none.
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
