/* wall: heaters in the rooms of an MPI program, one room per process, keep the wanted temperatures; the rooms share a
 * wall. */
#include "../../clients/c/rlb_mpi.h"

#include <math.h>
#include <stdio.h>

enum { ROOMS = 2 };

int main(int argc, char **argv)
{
	rlb_spec spec = {.name = "wall", .obs = {{.name = "state", .kind = RLB_F64, .shape = {2 * ROOMS}}}, .max_steps = 40,
	                 .action = {.kind = RLB_F64, .shape = {ROOMS}, .low = -1, .high = 1}};
	double seen[2 * ROOMS], heat[ROOMS], missed, sum;
	int rank, size;
	rlb_mpi m;
	MPI_Init(&argc, &argv);
	int going = rlb_mpi_open(&spec, &m);
	if (going >= 0) {
		MPI_Comm_rank(m.comm, &rank);
		MPI_Comm_size(m.comm, &size);
		if (size != ROOMS)
			return fprintf(stderr, "wall: %d processes: expected %d\n", size, ROOMS), MPI_Abort(m.comm, 2);
	}
	while (going >= 0) {
		double here = 0, wanted = (double)(rlb_mpi_seed(&m) >> (8 * rank) & 255) / 128 - 1;
		MPI_Gather(&here, 1, MPI_DOUBLE, seen, 1, MPI_DOUBLE, 0, m.comm);
		MPI_Gather(&wanted, 1, MPI_DOUBLE, seen + ROOMS, 1, MPI_DOUBLE, 0, m.comm);
		rlb_mpi_send_init(&m, seen);
		while ((going = rlb_mpi_recv_action(&m, heat)) == 1) {
			double there = 0;
			MPI_Sendrecv(&here, 1, MPI_DOUBLE, 1 - rank, 0, &there, 1, MPI_DOUBLE, 1 - rank, 0, m.comm,
				MPI_STATUS_IGNORE);
			here += 0.3 * heat[rank] + 0.1 * (there - here);
			missed = fabs(here - wanted);
			MPI_Reduce(&missed, &sum, 1, MPI_DOUBLE, MPI_SUM, 0, m.comm);
			MPI_Gather(&here, 1, MPI_DOUBLE, seen, 1, MPI_DOUBLE, 0, m.comm);
			rlb_mpi_send_state(&m, seen, -sum);
		}
	}
	int failed = rlb_error() != NULL;
	if (failed)
		fprintf(stderr, "wall: %s\n", rlb_error());
	rlb_mpi_close(&m);
	MPI_Finalize();
	return failed;
}
