package mpi

import (
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rlinf/rlinf/internal/test"
)

// The lowest rank of a program speaks for it. Variables without a connection to the launcher are left over from
// another program.
func TestLauncher(t *testing.T) {
	socket, noSocket := descriptors(t)
	type env = map[string]string
	pmi := func(fd int, more env) env {
		more["PMI_FD"] = fmt.Sprint(fd)
		return more
	}
	for _, c := range []struct {
		name  string
		env   env
		n     int
		by    string
		leads bool
	}{
		{"alone", nil, 1, "", true},
		{"Open MPI, first", env{"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": "0", "OMPI_FIRST_RANKS": "0",
			"PMIX_NAMESPACE": "7"}, 8, "mpirun", true},
		{"Open MPI, another", env{"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": "1", "OMPI_FIRST_RANKS": "0",
			"PMIX_NAMESPACE": "7"}, 8, "mpirun", false},
		{"Open MPI, first of the second program", env{"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": "4",
			"OMPI_FIRST_RANKS": "0 4", "PMIX_NAMESPACE": "7"}, 8, "mpirun", true},
		{"Open MPI, another of the second program", env{"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": "5",
			"OMPI_FIRST_RANKS": "0 4", "PMIX_NAMESPACE": "7"}, 8, "mpirun", false},
		{"Open MPI, left over", env{"OMPI_COMM_WORLD_SIZE": "8", "OMPI_COMM_WORLD_RANK": "5"}, 1, "", true},
		{"Hydra, first", pmi(socket, env{"PMI_SIZE": "4", "PMI_RANK": "0", "HYDI_CONTROL_FD": "5"}), 4, "mpiexec",
			true},
		{"Hydra, another", pmi(socket, env{"PMI_SIZE": "4", "PMI_RANK": "3", "HYDI_CONTROL_FD": "5"}), 4, "mpiexec",
			false},
		{"PMI by a port", env{"PMI_SIZE": "4", "PMI_RANK": "3", "PMI_PORT": "host:5000"}, 4, "mpiexec", false},
		{"PMI, a rank alone", env{"PMI_RANK": "2"}, 1, "", true},
		{"PMI, without a connection", env{"PMI_SIZE": "4", "PMI_RANK": "2"}, 1, "", true},
		{"PMI, its connection is closed", pmi(1<<20, env{"PMI_SIZE": "4", "PMI_RANK": "2"}), 1, "", true},
		{"PMI, its descriptor is no socket", pmi(noSocket, env{"PMI_SIZE": "4", "PMI_RANK": "2"}), 1, "", true},
		{"PMI, a rank that is none of the size", pmi(socket, env{"PMI_SIZE": "2", "PMI_RANK": "2"}), 2, "mpiexec",
			true},
		{"not a number", pmi(socket, env{"PMI_SIZE": "many", "PMI_RANK": "1"}), 1, "", true},
		{"srun, first", env{"SLURM_STEP_NUM_TASKS": "16", "SLURM_PROCID": "0", "PMIX_NAMESPACE": "7"}, 16, "srun",
			true},
		{"srun, another", env{"SLURM_STEP_NUM_TASKS": "16", "SLURM_PROCID": "2", "PMIX_NAMESPACE": "7"}, 16, "srun",
			false},
		{"srun with PMI",
			pmi(socket, env{"SLURM_STEP_NUM_TASKS": "16", "SLURM_PROCID": "2", "PMI_SIZE": "16", "PMI_RANK": "2"}), 16,
			"srun", false},
		{"srun without a connection", env{"SLURM_STEP_NUM_TASKS": "16", "SLURM_PROCID": "2"}, 16, "srun", true},
		{"srun, a rank alone", env{"SLURM_PROCID": "3"}, 1, "", true},
		{"mpirun in a job step of one daemon per node",
			env{"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1", "OMPI_COMM_WORLD_SIZE": "8",
				"OMPI_COMM_WORLD_RANK": "0", "PMIX_NAMESPACE": "7"}, 8, "mpirun", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			setLaunched(t, c.env)
			n, by := Launched()
			if leads := Leads(); n != c.n || by != c.by || leads != c.leads {
				t.Errorf("%d processes by %q, leads: %v, want %d by %q, leads: %v", n, by, leads, c.n, c.by, c.leads)
			}
		})
	}
}

// descriptors returns a descriptor of a socket, like a launcher's connection, and one of a pipe.
func descriptors(t *testing.T) (socket, noSocket int) {
	pair := test.Must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	var pipe [2]int
	test.OK(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	t.Cleanup(func() {
		for _, fd := range []int{pair[0], pair[1], pipe[0], pipe[1]} {
			unix.Close(fd)
		}
	})
	return pair[0], pipe[0]
}

// setLaunched sets these variables of launchers, and unsets all other ones.
func setLaunched(t *testing.T, env map[string]string) {
	names := []string{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_FIRST_RANKS", "PMIX_NAMESPACE",
		"PMI_SIZE", "PMI_RANK", "PMI_FD", "PMI_PORT", "HYDI_CONTROL_FD", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID",
		"PMIX_SERVER_URI3", "PMIX_SERVER_URI4", "PMIX_SERVER_TMPDIR", "SLURM_TASK_PID", "SLURM_SRUN_COMM_HOST",
		"SLURM_SRUN_COMM_PORT"}
	for name := range env {
		if !slices.Contains(names, name) {
			t.Fatalf("%s is not unset elsewhere", name)
		}
	}
	for _, name := range names {
		t.Setenv(name, env[name])
	}
}
