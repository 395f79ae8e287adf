// The library's own collectives on communicators of its own, as Go sees them.
#ifndef RLINF_MPI_NATIVE_H
#define RLINF_MPI_NATIVE_H

#include "shim.h"

typedef struct rl_native rl_native; // one process's end of a communicator of MPI; it serves one thread at a time

enum { // spmd.Kind
	RL_BARRIER, RL_BROADCAST, RL_REDUCE, RL_ALLREDUCE, RL_REDUCE_SCATTER,
	RL_ALLGATHER, RL_GATHER, RL_SCATTER, RL_ALLTOALL, RL_SENDRECV,
};
enum { RL_SUM, RL_PROD, RL_MIN, RL_MAX };                    // spmd.Op
enum { RL_F32 = 1, RL_F64, RL_I32, RL_I64, RL_U8, RL_BF16 }; // tensor.DType

// The arguments of the next call. Go fills them in before each call. All lengths are in elements.
typedef struct {
	int kind, dtype, op, root, to, from;
	int64_t n;     // length of the data
	int64_t sent;  // length of the data that SENDRECV sends
	int64_t chunk; // the largest number of elements in one call of MPI, if the operation can be split
	int uneven;    // 1: block lengths are in counts; 0: all blocks have length block
	int64_t block;
	int in_place;  // 1: ALLTOALL sends from data, in place
	int *counts, *displs, *send_counts, *send_displs; // one for each member; rl_native_open allocates them
	int64_t got;   // after RL_SHORT_MESSAGE: the elements that SENDRECV has received
} rl_collective;

enum { RL_SHORT_MESSAGE = -10 }; // SENDRECV received a message that is shorter than the data

// rl_native_open makes a communicator of n ranks of the world, in that order. This process's rank is among them. The
// call is collective over these ranks. Simultaneous calls that have a process in common need different tags. The call
// spins while it waits for the other ranks, because MPI has no other way.
int rl_native_open(rl_world *w, const int *ranks, int n, int tag, const char *name, rl_native **out,
	rl_collective **call, rl_fault *fault);
// rl_native_close frees the communicator. It frees nothing and returns RL_PENDING if a collective is still under way
// after a second.
int rl_native_close(rl_native *x);

// rl_native_run runs the collective by MPI's blocking calls. It returns 0, RL_SHORT_MESSAGE or an MPI error code.
int rl_native_run(rl_native *x, void *data, void *send);
// rl_native_start starts the collective by the non-blocking calls. Like rl_wait, it may return RL_PENDING. In that case
// the caller goes on with rl_native_wait, where slices is the number of calls that have returned RL_PENDING so far. The
// buffers must stay until the collective is done.
int rl_native_start(rl_native *x, void *data, void *send);
int rl_native_wait(rl_native *x, int slices);
// rl_native_abandon says that nobody waits for the collective any more. The progress thread progresses the collective
// from now on.
void rl_native_abandon(rl_native *x);
// rl_native_time takes samples. Each sample is a barrier and then `batch` calls of rl_native_run. ns gets the
// nanoseconds of each batch.
int rl_native_time(rl_native *x, void *data, void *send, int batch, int samples, double *ns);

#endif
