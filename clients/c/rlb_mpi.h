/*
 * rlb_mpi.h is rlb.h for a solver of many MPI processes, in one job with rlinf:
 *
 *	mpirun -np 4 rlinf -c cfg.yaml : -np 16 ./solver
 *
 * Compile rlb.c and rlb_mpi.c into the solver with mpicc. It owns its loop; all its ranks make the same calls, between
 * MPI_Init and MPI_Finalize, and use m.comm where they would use MPI_COMM_WORLD, which has rlinf in it:
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
 * Only the data of rank 0, the root, counts: the solver gathers it there. The root alone has an rlb_error. Waiting
 * ranks sleep, they do not spin. With RLB_ADDR another address than mpi:R, the solver is a job of its own and the root
 * talks there.
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
	void *packet;  /* what a broadcast carries */
	int packet_size;
} rlb_mpi;

/* rlb_mpi_open takes part in the split of MPI_COMM_WORLD by application, and opens the conversation. 0; -1 on all ranks
 * where rlb_open is NULL. */
int rlb_mpi_open(const rlb_spec *spec, rlb_mpi *m);

/* As rlb_seed and rlb_recv_action; every rank gets what the root does. */
uint64_t rlb_mpi_seed(rlb_mpi *m);
int rlb_mpi_recv_action(rlb_mpi *m, void *action);

/* As rlb_send_init, rlb_send_state and rlb_send_last on the root; nothing elsewhere. */
void rlb_mpi_send_init(rlb_mpi *m, const void *obs);
void rlb_mpi_send_state(rlb_mpi *m, const void *obs, double reward);
void rlb_mpi_send_last(rlb_mpi *m, const void *obs, double reward, int how);

/* rlb_mpi_close ends what rlb_mpi_open began, on all ranks, and frees the communicator. */
void rlb_mpi_close(rlb_mpi *m);

#ifdef __cplusplus
}
#endif

#endif
