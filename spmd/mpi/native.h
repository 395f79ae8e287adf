// Go's interface to the MPI library's own barrier, broadcast and allreduce. They use communicators of their own.
#ifndef RLINF_MPI_NATIVE_H
#define RLINF_MPI_NATIVE_H

#include "shim.h"

typedef struct rl_native rl_native; // one process's end of an MPI communicator; only one thread at a time may use it

enum { RL_BARRIER, RL_BROADCAST, RL_ALLREDUCE = 3 };         // spmd.Kind
enum { RL_SUM, RL_PROD, RL_MIN, RL_MAX };                    // spmd.Op
enum { RL_F32 = 1, RL_F64, RL_I32, RL_I64, RL_U8, RL_BF16 }; // tensor.DType

// The arguments of the next call. Go fills them in before each call.
typedef struct {
	int kind, dtype, op, root;
	int64_t n;     // length of the data in elements
	int64_t chunk; // the largest number of elements in one MPI call
} rl_collective;

// rl_native_open makes a communicator of n ranks of the world, in the order of ranks. The ranks must include this
// process's rank. The call is collective over these ranks. Simultaneous calls that share a process need different tags.
// The call spins while it waits for the other ranks, because MPI has no non-blocking form of this call.
int rl_native_open(rl_world *w, const int *ranks, int n, int tag, const char *name, rl_native **out,
	rl_collective **call, rl_fault *fault);
// rl_native_close frees the communicator. If a collective is still under way after a second, it returns RL_PENDING and
// frees nothing.
int rl_native_close(rl_native *x);

// rl_native_run runs the collective by MPI's blocking calls. It returns 0 or an MPI error code.
int rl_native_run(rl_native *x, void *data);
// rl_native_start starts the collective by MPI's non-blocking calls. While the result is RL_PENDING, the caller calls
// rl_native_wait, with slices = the number of calls that have returned RL_PENDING so far. The data must stay valid
// until the collective is done.
int rl_native_start(rl_native *x, void *data);
int rl_native_wait(rl_native *x, int slices);
// rl_native_abandon passes the started collective to the progress thread, which progresses it from now on. The caller
// must not wait for it any more.
void rl_native_abandon(rl_native *x);
// rl_native_time takes samples. Sample i is a barrier and then a batch of runs like those of rl_native_run. ns[i] is
// the time of the batch in nanoseconds, without the barrier.
int rl_native_time(rl_native *x, void *data, int batch, int samples, double *ns);

#endif
