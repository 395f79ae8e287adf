/*
 * rlb_mpi.h is rlb.h for a solver of many MPI processes, in one job with rlinf:
 *
 *	mpirun -np 4 rlinf -c cfg.yaml : -np 16 ./solver
 *
 * Compile rlb.c and rlb_mpi.c into the solver with mpicc. The solver owns its loop. All its ranks make the same calls,
 * between MPI_Init and MPI_Finalize, and use m.comm in place of MPI_COMM_WORLD, which includes rlinf:
 *
 *	rlb_mpi m;
 *	for (int going = rlb_mpi_open(&spec, &m); going >= 0;) {
 *		begin(m.comm, rlb_mpi_seed(&m), obs);
 *		rlb_mpi_send_init(&m, obs);
 *		while ((going = rlb_mpi_recv_action(&m, action)) == 1) {
 *			advance(m.comm, action, obs, &reward);
 *			rlb_mpi_send_state(&m, obs, reward);
 *		}
 *	}
 *	rlb_mpi_close(&m);
 *
 * Only the data of rank 0, the root, counts: the solver must gather its data there. Only the root has an rlb_error.
 * Waiting ranks sleep. If RLB_ADDR is another address than mpi:R, the solver is a job of its own and the root connects
 * to this address.
 */
#ifndef RLB_MPI_H
#define RLB_MPI_H

#include "rlb.h"

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
	MPI_Comm comm; /* the solver's ranks */
	rlb *root;     /* the conversation, for rlb_obs and rlb_info, on rank 0 of comm; NULL elsewhere */
	void *packet;  /* buffer of broadcasts */
	int packet_size;
} rlb_mpi;

/* rlb_mpi_open takes part in the split of MPI_COMM_WORLD by application, and opens the conversation. It returns 0, or
 * -1 on all ranks if rlb_open returns NULL. */
int rlb_mpi_open(const rlb_spec *spec, rlb_mpi *m);

/* As rlb_seed and rlb_recv_action; every rank gets the root's result. */
uint64_t rlb_mpi_seed(rlb_mpi *m);
int rlb_mpi_recv_action(rlb_mpi *m, void *action);

/* As rlb_send_init, rlb_send_state and rlb_send_last on the root; on other ranks these do nothing. */
void rlb_mpi_send_init(rlb_mpi *m, const void *obs);
void rlb_mpi_send_state(rlb_mpi *m, const void *obs, double reward);
void rlb_mpi_send_last(rlb_mpi *m, const void *obs, double reward, int how);

/* rlb_mpi_close ends the conversation on all ranks, and frees the communicator. */
void rlb_mpi_close(rlb_mpi *m);

#ifdef __cplusplus
}
#endif

#endif
