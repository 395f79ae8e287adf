//go:build mpi

// Collectives by which ranks agree on shared memory.

#include "inner.h"

int rl_node_allgather(rl_world *w, const void *mine, int n, void *all, rl_fault *fault) {
	MPI_Request req;
	TRY(MPI_Iallgather(mine, n, MPI_BYTE, all, n, MPI_BYTE, w->node, &req));
	TRY(rl_wait_asleep(&req));
	return MPI_SUCCESS;
}

int rl_world_agree(rl_world *w, int *yes, rl_fault *fault) {
	MPI_Request req;
	TRY(MPI_Iallreduce(MPI_IN_PLACE, yes, 1, MPI_INT, MPI_MIN, w->world, &req));
	TRY(rl_wait_asleep(&req));
	return MPI_SUCCESS;
}
