// The functions by which spmd/mpi calls MPI, in addition to those of gompi. Any thread may call them, and none calls
// back into Go. A buffer must not move until its request is done. Functions return MPI error codes (0 = ok), and
// describe the failing call in an rl_fault.
#ifndef RLINF_MPI_SHIM_H
#define RLINF_MPI_SHIM_H

#include <stdint.h>

typedef struct rl_world rl_world; // the processes of the program, and this process's progress thread
typedef struct rl_group rl_group; // an MPI communicator for the members of one component
typedef struct rl_end rl_end;     // one member's end of a communicator, with its requests

typedef struct { // spmd.Request, field by field
	uint64_t handle;
	int64_t n;
} rl_request;

typedef struct {
	const char *call; // the MPI function that failed; NULL for a request that ended in an error
	int code;         // MPI's error code
	int sending;      // 1 for a send, 0 for a receive
	int peer;         // rank in the communicator of the end
	int tag;          // the MPI tag
	int64_t bytes;
} rl_fault;

enum { RL_NAME = 288 }; // room for "host H, pid P", and for the name of a group

typedef struct {
	int rank, size;
	int granted;       // thread level
	int tags;          // number of tags in a plane
	int planes;        // see rl_end_open
	char before[320];  // "rank R (host H, pid P)" of the rank whose heartbeat this rank receives
	const char *level; // name of the granted level
} rl_place;

enum {
	RL_ALL_ZERO = -1,    // all handles are zero
	RL_PENDING = -2,     // not done
	RL_FAULT = -3,       // a request failed: see rl_fault
	RL_UNKNOWN = -4,     // not a handle of this end, or a handle that was waited for before
	RL_SHORT_SLEEP = -5, // not done, and MPI need not be polled: Go makes a short sleep and calls again
};

enum { RL_SHORT_SLEEP_NS = 1000 * 1000 }; // total time of the spinning and the short sleeps of a wait

// The event that ends a short sleep: *word differs from old, or *top is not 0. *sleepers counts the sleeping threads.
typedef struct {
	void *word, *sleepers, *top;
	uint32_t old;
} rl_go_event;

enum { RL_SLICE_NS = 5 * 1000 * 1000 }; // how long a new wait stays in C before it returns to Go

// rl_signals_save saves Go's signal handlers before MPI_Init. rl_signals_restore restores them, and returns the number
// of handlers that MPI_Init had replaced.
void *rl_signals_save(void);
int rl_signals_restore(void *saved);

// rl_world_open makes the world after MPI_Init, fills in *place and starts the progress thread. It is collective over
// the program's processes. It sets (*node)[r] to the lowest rank on rank r's node. The caller frees *node.
int rl_world_open(int64_t beat_ns, int64_t stall_ns, rl_world **out, rl_place *place, int **node, rl_fault *fault);
// rl_world_watch returns when the progress thread ends. It returns 0 after rl_world_leave, and 1 if the previous rank
// has been silent for *silent_ns.
int rl_world_watch(rl_world *w, int64_t *silent_ns);
// rl_world_barrier is a barrier that sleeps while it waits. First it waits for the answers to the questions that
// rl_departed has sent. After the barrier it receives all remaining messages, so that MPI_Finalize does not wait for
// them.
int rl_world_barrier(rl_world *w, rl_fault *fault);
// rl_world_renew resets the world to its state at the start. All ranks must have closed their ends and called
// rl_world_barrier. It frees the groups, drops unreceived messages of the node, and undoes rl_leave. It is collective,
// and sets *next to the maximum of *next over all ranks.
int rl_world_renew(rl_world *w, int64_t *next, rl_fault *fault);
// rl_world_leave makes the progress thread say goodbye to the neighbours and end. Call rl_world_free only after
// rl_world_watch has returned.
void rl_world_leave(rl_world *w);
void rl_world_free(rl_world *w);

// rl_pmix_finalize calls PMIx_Finalize if the launcher uses PMIx. It is for processes whose MPI_Finalize does not
// return.
void rl_pmix_finalize(void);

// rl_group_open makes a communicator of n ranks of the world, in the order of ranks. The ranks must include this
// process's rank. The call is collective over these ranks. If `same` is not NULL, it is an earlier group with the same
// ranks in the same order. Duplicating that group is faster than making a new communicator. Simultaneous calls that
// share a process need different tags. The world frees its groups.
int rl_group_open(rl_world *w, const int *ranks, int n, int tag, const char *name, const rl_group *same,
	rl_group **out, rl_fault *fault);
// rl_group_list queries MPI for the name of a group, the number of its members, and their world ranks. If g is NULL,
// the group is the world. The array ranks must have room for all ranks of the world.
int rl_group_list(rl_world *w, const rl_group *g, char name[RL_NAME], int *ranks, int *n, rl_fault *fault);

// rl_end_open opens an end. Only one thread at a time may use it. Its messages use the communicator of group. If group
// is NULL, they use a plane, which is a duplicate of the world's communicator. Only tags distinguish the ends in one
// communicator. space is a unique number of the communicator among these processes. process is this member's rank in
// the communicator. inbox is the number of the inbox that receives messages for this end. rl_end_close abandons the
// requests under way.
rl_end *rl_end_open(rl_world *w, const rl_group *group, int plane, uint64_t space, int process, int inbox);
void rl_end_close(rl_end *e);
// rl_end_next finds the first request that nobody has waited for, from a given slot on. It describes the request in
// *out and returns the number of the next slot, or returns -1 if there is no such request.
int rl_end_next(rl_end *e, int from, rl_fault *out);

// rl_isend and rl_irecv return a handle, 0 for a send that is done already, or RL_BAD | MPI error code. RL_BAD alone
// means too many requests, or out of memory. near is the world rank of the peer if it shares memory with this rank, and
// -1 otherwise. inbox is the number of the inbox of the peer's end.
#define RL_BAD (1ull << 63)
uint64_t rl_isend(rl_end *e, uintptr_t buf, int64_t n, int to, int tag, int near, int inbox);
uint64_t rl_irecv(rl_end *e, uintptr_t buf, int64_t n, int from, int tag, int near);
// rl_wait waits until all of reqs are done, and returns 0. If any = 1, it waits until one of reqs is done, and returns
// its index. It zeroes the handles of requests that are done. After a slice of time it returns RL_PENDING.
// *waited_ns is the time that the wait has taken, including short sleeps. Before the first call it must be 0. With
// RL_SHORT_SLEEP, *ev is the event that must end the sleep.
int rl_wait(rl_end *e, rl_request *reqs, int n, int any, int64_t *waited_ns, rl_go_event *ev, rl_fault *fault);
// rl_world_waits returns two counts. *woken is the number of sleeps between two tests of MPI that a message through
// shared memory ended. *missed is the number of sleeps that ended by their time limit although a request was done.
void rl_world_waits(rl_world *w, int64_t *woken, int64_t *missed);
// rl_test tests a request once. It returns 0 if the request is done, RL_PENDING, RL_FAULT or RL_UNKNOWN.
int rl_test(rl_end *e, rl_request *req, rl_fault *fault);
// rl_cancel cancels a receive and returns 0. For a send, and for a receive that a message has matched, it returns
// RL_PENDING, and the caller must still wait for the request.
int rl_cancel(rl_end *e, rl_request *req, rl_fault *fault);

// rl_is_open returns 1 while the handle's request has not been waited for.
int rl_is_open(rl_end *e, uint64_t handle);

// rl_end_request describes a request that is open and returns 0. For other handles it returns RL_UNKNOWN.
int rl_end_request(rl_end *e, uint64_t handle, rl_fault *out);

// rl_leave records that this rank's program has ended. Once after_ns have passed, a wait for this rank is an error. If
// after_ns is 0, a wait is never an error.
void rl_leave(rl_world *w, int64_t after_ns);
// rl_departed returns "host H, pid P" of a rank whose program has ended, and NULL for other ranks. It sends a question
// to the rank. The answer takes a while, so the caller must repeat the call.
const char *rl_departed(rl_world *w, int rank);

// rl_node_allgather gathers n bytes from each rank of the node on all these ranks, in order. rl_world_agree sets *yes
// to the minimum of *yes over all ranks of the world. Both are collective, and sleep while they wait.
int rl_node_allgather(rl_world *w, const void *mine, int n, void *all, rl_fault *fault);
int rl_world_agree(rl_world *w, int *yes, rl_fault *fault);
// rl_world_oversubscribed records that the node has fewer cores than ranks, so that no wait spins.
void rl_world_oversubscribed(rl_world *w);
// rl_world_share enables messages through shared memory between ranks of the node. regions[r] is the address of rank
// r's memory, or 0 for a rank of another node. Each memory begins with rl_segment_bytes() zeroed bytes for this use.
// This rank's memory has own_bytes bytes, of which message_bytes bytes at message_mem are for messages. All ranks of
// the node must have mapped each other's memory before any of them sends. rl_world_share returns 0 or an MPI error.
enum { RL_INBOXES = 64 };
int64_t rl_segment_bytes(void);
int rl_world_share(rl_world *w, const uintptr_t *regions, int64_t own_bytes, uintptr_t message_mem,
	int64_t message_bytes);
// rl_await waits until *word differs from the old value, and returns 0. After a slice of time it returns RL_PENDING.
// *waited_ns is as in rl_wait. Before RL_SHORT_SLEEP_NS, rl_await only spins. *sleepers counts the sleeping threads.
int rl_await(rl_world *w, uintptr_t word, uintptr_t sleepers, uint32_t old, int64_t *waited_ns);

// Messages to and from foreign programs in the same job, between ranks of MPI_COMM_WORLD. rl_foreign_send returns when
// MPI has sent the message or, if deliver = 1, when the other program has begun to receive it. rl_foreign_match waits
// for a message of a rank; rank -1 means any rank. After for_ns both functions return RL_PENDING. The caller must
// receive a matched message by rl_foreign_take, with all its n bytes.
int rl_foreign_count(rl_world *w); // processes of other programs
int rl_foreign_send(uintptr_t head, int64_t nh, uintptr_t payload, int64_t np, int to, int deliver, int64_t for_ns,
	rl_fault *fault);
int rl_foreign_match(int from, int64_t for_ns, int *sender, int64_t *n, void **message, rl_fault *fault);
int rl_foreign_take(void *message, uintptr_t buf, int64_t n, rl_fault *fault);

// rl_error_text writes MPI's text for an error code, and rl_library_text the library's name. They write at most `size`
// bytes, including the terminating zero.
void rl_error_text(int code, char *text, int size);
void rl_library_text(char *text, int size);

#endif
