// The library's own collectives on communicators of its own, as Go sees them.
#ifndef RLINF_MPI_NATIVE_H
#define RLINF_MPI_NATIVE_H

#include "shim.h"

typedef struct rl_native rl_native; // one process's end of a communicator of MPI; it serves one thread at a time

enum { RL_BARRIER, RL_BROADCAST, RL_REDUCE, RL_ALLREDUCE, RL_REDUCE_SCATTER, RL_ALLGATHER, RL_GATHER, RL_SCATTER, RL_ALLTOALL, RL_SENDRECV }; // spmd.Kind
enum { RL_SUM, RL_PROD, RL_MIN, RL_MAX };                       // spmd.Op
enum { RL_F32 = 1, RL_F64, RL_I32, RL_I64, RL_U8, RL_BF16 };    // tensor.DType

// What the next call does. Go fills it in before each call; all lengths are in elements.
typedef struct {
	int kind, dtype, op, root, to, from;
	int64_t n;       // of the data
	int64_t sent;    // of what SENDRECV sends
	int64_t chunk;   // at most so many in one call of MPI, where an operation can be cut
	int uneven;      // the blocks are those of counts; 0: all have `block`
	int64_t block;
	int in_place;    // of ALLTOALL: what is sent lies where the result arrives
	int *counts, *displs, *send_counts, *send_displs; // one for each member; rl_native_open allocates them
	int64_t got;     // after RL_SHORT: of what SENDRECV should have received
} rl_collective;

enum { RL_SHORT = -10 }; // a shorter message than SENDRECV has room for

// rl_native_open makes a communicator of n ranks of the world, this process's among them, in that order; collective over them. No two calls at a time that
// have a process in common may have the same tag. It turns the core while it waits for the others: MPI has no other way.
int rl_native_open(rl_world *w, const int *ranks, int n, int tag, const char *name, rl_native **out, rl_collective **call, rl_fault *fault);
// rl_native_close frees the communicator. RL_PENDING: something that was started is still under way after a second, so that nothing was freed.
int rl_native_close(rl_native *x);

// rl_native_run does the collective by MPI's blocking calls: 0, RL_SHORT or an MPI error code.
int rl_native_run(rl_native *x, void *data, void *send);
// rl_native_start does it by the non-blocking ones and begins to wait as rl_wait does: RL_PENDING too, then rl_native_wait goes on, with the number of calls that
// returned RL_PENDING before. The buffers must stay until it is done.
int rl_native_start(rl_native *x, void *data, void *send);
int rl_native_wait(rl_native *x, int slices);
// rl_native_abandon says that nobody waits any more for what was started: the progress thread goes on with it.
void rl_native_abandon(rl_native *x);
// rl_native_time takes samples: a barrier, then `batch` times rl_native_run, whose nanoseconds, all together, are in ns.
int rl_native_time(rl_native *x, void *data, void *send, int batch, int samples, double *ns);

#endif
