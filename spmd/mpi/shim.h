// What spmd/mpi asks of MPI beyond gompi. Every function may be called from any thread; none calls back into Go. Buffers stay where they are
// until their request is done. MPI's own return codes come back (0 = ok), with the failing call in an rl_fault.
#ifndef RLINF_MPI_SHIM_H
#define RLINF_MPI_SHIM_H

#include <stdint.h>

typedef struct rl_world rl_world; // this process's place among the processes of the program, and its progress thread
typedef struct rl_group rl_group; // a communicator of MPI for the members of one component
typedef struct rl_end rl_end;     // one member's end of a communicator, with the requests it has under way

typedef struct { // spmd.Request, field by field
	uint64_t handle;
	int64_t n;
} rl_request;

typedef struct {
	const char *call; // the MPI function that failed; NULL for a request that ended in an error
	int code;         // MPI's error code
	int sending;      // 1: a send, 0: a receive
	int peer;         // rank in the communicator of the end
	int tag;          // as MPI saw it
	int64_t bytes;
} rl_fault;

enum { RL_NAME = 288 }; // room for "host H, pid P", and for the name of a group

typedef struct {
	int rank, size;
	int granted;           // thread level
	int tags;              // how many there are in a plane
	int planes;            // see rl_end_open
	char before[320];      // "rank R (host H, pid P)" of the rank whose heartbeat this one hears
	const char *level;     // granted, in words
} rl_place;

enum {
	RL_ALL_ZERO = -1, // nothing to wait for
	RL_PENDING = -2,  // not yet
	RL_FAULT = -3,    // a request failed: see rl_fault
	RL_UNKNOWN = -4,  // a handle that this end did not give out, or has taken back
	RL_NAP = -5,      // not yet, and only a letter ends the wait: Go naps, and calls again
};

enum { RL_NAP_NS = 1000 * 1000 }; // how long naps of a wait last, spinning included

// A post is what a nap waits for: that *word differs from old or that *top is not 0. A thread that sleeps for it is counted in *asleep.
typedef struct {
	void *word, *asleep, *top;
	uint32_t old;
} rl_nap;

enum { RL_SLICE_NS = 5 * 1000 * 1000 }; // how long a wait lasts at first before it lets Go look around

// Go's signal handlers, around MPI_Init: save before, restore after. Restore returns how many had been replaced.
void *rl_signals_save(void);
int rl_signals_restore(void *saved);

// rl_world_open finds this process's place after MPI_Init and starts the progress thread; collective over the program's processes. node[r] gets the
// lowest rank on r's node: *node is allocated here and freed by the caller.
int rl_world_open(int64_t beat_ns, int64_t stall_ns, rl_world **out, rl_place *place, int **node, rl_fault *fault);
// rl_world_watch returns when the progress thread ends: 0 after rl_world_leave, 1 when the rank before this one fell silent for *silent_ns.
int rl_world_watch(rl_world *w, int64_t *silent_ns);
// rl_world_meet waits, asleep, until every process has called it, and receives what nobody did, so that MPI can end in peace.
int rl_world_meet(rl_world *w, rl_fault *fault);
// rl_world_leave tells the progress thread to say goodbye to the neighbours and end; rl_world_free may follow once rl_world_watch has returned.
void rl_world_leave(rl_world *w);
void rl_world_free(rl_world *w);

// rl_group_open makes a communicator of n ranks of the world, this process's among them, in that order; collective over them. `same` is a group that has
// the same ranks in the same order, NULL if there is none: a duplicate of it is faster. No two calls at a time that have a process in common may have the
// same tag. The world frees its groups.
int rl_group_open(rl_world *w, const int *ranks, int n, int tag, const char *name, const rl_group *same, rl_group **out, rl_fault *fault);
// rl_group_list reads from MPI the name of a group, or of the world if g is NULL, and the ranks in the world of its n members: ranks has room for all.
int rl_group_list(rl_world *w, const rl_group *g, char name[RL_NAME], int *ranks, int *n, rl_fault *fault);

// An end serves one thread at a time. Its messages travel in a group, or if that is NULL in a plane, a duplicate of the world's communicator. Tags alone
// tell the ends in one communicator apart. rl_end_close gives up what is still under way.
// A space is a number that no other communicator of these processes has, process this member's number in it, and lane where this end's letters go.
rl_end *rl_end_open(rl_world *w, const rl_group *group, int plane, uint64_t space, int process, int lane);
void rl_end_close(rl_end *e);
// rl_end_next describes the first request at or after slot `from` that nobody has waited for, and returns the slot after it; -1: there is none.
int rl_end_next(rl_end *e, int from, rl_fault *out);

// A handle, 0 for a send that is done already, or RL_BAD | MPI error code (RL_BAD alone: too many requests, or out of memory).
#define RL_BAD (1ull << 63)
// near is the rank in the world of a peer that shares memory with this one, else -1, and lane that of the peer's end.
uint64_t rl_isend(rl_end *e, uintptr_t buf, int64_t n, int to, int tag, int near, int lane);
uint64_t rl_irecv(rl_end *e, uintptr_t buf, int64_t n, int from, int tag, int near);
// rl_wait waits for all of reqs (returns 0), or for any (returns its index), for a slice of time: then RL_PENDING. Requests that are done are zeroed on the
// way. *waited_ns, 0 at first, is how long the wait has taken, with naps. After RL_NAP, nap says what to nap for.
int rl_wait(rl_end *e, rl_request *reqs, int n, int any, int64_t *waited_ns, rl_nap *nap, rl_fault *fault);
// rl_world_waits counts sleeps between two looks at MPI that a letter has ended, and messages that came while a wait slept for something else.
void rl_world_waits(rl_world *w, int64_t *woken, int64_t *missed);
// rl_test looks once.
int rl_test(rl_end *e, rl_request *req, rl_fault *fault);
// rl_cancel takes a receive back: 0, or RL_PENDING for a send and when a message has matched it: it must be waited for as before.
int rl_cancel(rl_end *e, rl_request *req, rl_fault *fault);

// 1 while the handle's request has not been waited for.
int rl_is_open(rl_end *e, uint64_t handle);

// rl_end_request describes a request that is open: 0, or RL_UNKNOWN.
int rl_end_request(rl_end *e, uint64_t handle, rl_fault *out);

// rl_leave says that this rank's program has ended, and that nobody should wait for it once after_ns have passed (0: that does not matter).
void rl_leave(rl_world *w, int64_t after_ns);
// rl_departed returns "host H, pid P" of a rank that nobody should wait for, else NULL. The answer comes from there and takes a while: ask now and then.
const char *rl_departed(rl_world *w, int rank);

// rl_node_gather lets the ranks of a node, in order, tell each other n bytes each; rl_world_agree leaves 1 in yes if every rank of the world said 1. Both are
// collective, and sleep while they wait.
int rl_node_gather(rl_world *w, const void *mine, int n, void *all, rl_fault *fault);
int rl_world_agree(rl_world *w, int *yes, rl_fault *fault);
// rl_world_crowd says that the node has fewer cores than ranks.
void rl_world_crowd(rl_world *w);
// rl_mail_bytes is how much of the start of its shared memory, zeroed, each rank keeps for its lanes. rl_world_share lets messages between ranks of the node
// go through it: regions holds where each rank's memory is, 0 for a rank of another node, of own_bytes this rank's, with room for letters in it. The ranks
// of the node have all got there before one sends. 0, or an MPI error.
enum { RL_LANES = 64 };
int64_t rl_mail_bytes(void);
int rl_world_share(rl_world *w, const uintptr_t *regions, int64_t own_bytes, uintptr_t letters, int64_t letters_bytes);
// rl_await waits until the word differs from old (0), for a slice of time at most: then RL_PENDING. *waited_ns, 0 at first, is how long the wait has taken, with
// naps; it does not sleep before RL_NAP_NS. While it sleeps it is counted in asleep, another word.
int rl_await(rl_world *w, uintptr_t word, uintptr_t asleep, uint32_t old, int64_t *waited_ns);

// Messages to and from the programs of others in the same job, between ranks of MPI_COMM_WORLD. A send returns once its message was taken, a match when there is
// a message, from anyone if from is -1; after for_ns RL_PENDING. What was matched must be taken, n bytes of it.
int rl_foreign_count(rl_world *w); // processes of other programs
int rl_foreign_send(uintptr_t head, int64_t nh, uintptr_t payload, int64_t np, int to, int deliver, int64_t for_ns, rl_fault *fault);
int rl_foreign_match(int from, int64_t for_ns, int *sender, int64_t *n, void **message, rl_fault *fault);
int rl_foreign_take(void *message, uintptr_t buf, int64_t n, rl_fault *fault);

// MPI's words for an error code, and the library's for itself; at most size bytes with the terminating zero.
void rl_error_text(int code, char *text, int size);
void rl_library_text(char *text, int size);

#endif
