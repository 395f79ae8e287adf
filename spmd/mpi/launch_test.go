package mpi

import "testing"

func TestLaunched(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		n    int
		by   string
	}{
		{"alone", nil, 1, ""},
		{"Open MPI", map[string]string{"OMPI_COMM_WORLD_SIZE": "8"}, 8, "mpirun"},
		{"Hydra", map[string]string{"PMI_SIZE": "4", "HYDI_CONTROL_FD": "5"}, 4, "mpiexec"},
		{"srun", map[string]string{"SLURM_STEP_NUM_TASKS": "16"}, 16, "srun"},
		{"srun with PMI", map[string]string{"SLURM_STEP_NUM_TASKS": "16", "PMI_SIZE": "16"}, 16, "srun"},
		{"mpirun in a job step of one daemon per node", map[string]string{"SLURM_STEP_NUM_TASKS": "2", "OMPI_COMM_WORLD_SIZE": "8"}, 8, "mpirun"},
		{"not a number", map[string]string{"PMI_SIZE": "many"}, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "HYDI_CONTROL_FD"} {
				t.Setenv(name, c.env[name])
			}
			if n, by := Launched(); n != c.n || by != c.by {
				t.Errorf("Launched() = %d, %q, want %d, %q", n, by, c.n, c.by)
			}
		})
	}
}

func TestLeads(t *testing.T) {
	for _, c := range []struct {
		name string
		env  map[string]string
		want bool
	}{
		{"alone", nil, true},
		{"Open MPI, first", map[string]string{"OMPI_COMM_WORLD_RANK": "0", "OMPI_FIRST_RANKS": "0"}, true},
		{"Open MPI, another", map[string]string{"OMPI_COMM_WORLD_RANK": "1", "OMPI_FIRST_RANKS": "0"}, false},
		{"Open MPI, first of the second program", map[string]string{"OMPI_COMM_WORLD_RANK": "4", "OMPI_FIRST_RANKS": "0 4"}, true},
		{"Open MPI, another of the second program", map[string]string{"OMPI_COMM_WORLD_RANK": "5", "OMPI_FIRST_RANKS": "0 4"}, false},
		{"Hydra, first", map[string]string{"PMI_RANK": "0"}, true},
		{"Hydra, another", map[string]string{"PMI_RANK": "3"}, false},
		{"srun, first", map[string]string{"SLURM_PROCID": "0"}, true},
		{"srun, another", map[string]string{"SLURM_PROCID": "2"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, name := range []string{"OMPI_COMM_WORLD_RANK", "OMPI_FIRST_RANKS", "PMI_RANK", "SLURM_PROCID"} {
				t.Setenv(name, c.env[name])
			}
			if got := Leads(); got != c.want {
				t.Errorf("Leads() = %v", got)
			}
		})
	}
}
