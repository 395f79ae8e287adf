// Shared by the C files; Go sees shim.h only.
#ifndef RLINF_MPI_INNER_H
#define RLINF_MPI_INNER_H

#define _GNU_SOURCE
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

#include "shim.h"

enum { MAX_PLANES = 16 };

// What the progress threads send each other.
enum { BEAT_TAG, QUESTION_TAG, ANSWER_TAG };

typedef struct rl_peer rl_peer;

struct rl_group {
	MPI_Comm comm;
	rl_group *next;
};

struct rl_world {
	MPI_Comm world;   // the processes that run this program
	MPI_Comm beats;   // the same, for heartbeats alone
	MPI_Comm node;    // those of them that share memory with this one
	MPI_Comm plane[MAX_PLANES]; // the same, for messages
	int planes;
	rl_group *groups, **last_group; // in the order in which they were made
	int rank, size;
	char name[RL_NAME]; // host and process
	int64_t beat_ns, stall_ns;
	int overruns; // this MPI writes behind a buffer that is too short: see request.c

	// What the progress thread goes by; see progress.c.
	_Atomic int sends, receives; // under way
	_Atomic int waiters;         // threads inside rl_wait, which progress MPI themselves
	_Atomic uint32_t posts;      // counts sends and receives posted
	_Atomic int idling;          // the thread sleeps until it is kicked
	_Atomic int leaving;
	pthread_mutex_t lock;        // ends, and the kick
	pthread_cond_t kick;
	rl_end *ends;
	pthread_t thread;
	int64_t silent_ns;

	// Of ranks that have left; see peers.c.
	_Atomic int64_t gone_ns; // when nobody should wait for this rank any more; 0: not yet
	_Atomic int asking;      // questions without an answer
	rl_peer *peers;          // of each rank
};

// A slot is one request under way.
enum { FREE, UNMATCHED, UNDERWAY, DONE };

typedef struct rl_slot {
	MPI_Request req;
	int state;
	int code; // MPI error, once DONE
	uint32_t generation, index;
	int sending, peer, tag;
	uintptr_t buf;
	int64_t bytes, got;
	void *scratch;                 // takes a message that is longer than the buffer
	struct rl_slot *next;          // in the free list; behind this one in a line
	struct rl_slot *last;          // of a line's head: the end of the line
	struct rl_slot *right, **left; // of a line's head: among the heads
} rl_slot;

enum { CHUNK = 64, CHUNKS = 1024 };

// The requests of an end belong to the thread that uses it. The progress thread looks at them too, so both take `busy`: the owner for an instant, as it never
// waits while it has it, and the progress thread only when it is free.
struct rl_end {
	rl_world *w;
	MPI_Comm comm;
	rl_end *next, **at; // among the world's ends
	_Atomic int busy;
	_Atomic int waited;       // the owner is in rl_wait
	_Atomic int sends, lines; // how many
	rl_slot *free, *heads;
	int chunks;
	rl_slot *chunk[CHUNKS];
};

// TRY runs an MPI call and leaves the function with its name and code when it fails.
#define TRY(expr)                                    \
	do {                                             \
		int rc_ = (expr);                            \
		if (rc_ != MPI_SUCCESS) {                    \
			fault->call = #expr, fault->code = rc_;  \
			return rc_;                              \
		}                                            \
	} while (0)

static inline int64_t rl_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// The next six are in wake.c, which calls no other file.

// rl_pause is the next pause of a wait that has taken `waited` ns so far: at first it returns 0 at once, then it yields, then it sleeps.
int rl_pause(int64_t waited);

// rl_backoff sleeps for as long as rl_pause does once a wait no longer yields.
void rl_backoff(int64_t waited);

// rl_sleep is nanosleep on time: with the default timer slack a sleep of 1 us takes 56 us. A signal may end it early, which is harmless.
void rl_sleep(int64_t ns);

// rl_settle sleeps until a request is done that other processes may join late.
int rl_settle(MPI_Request *req);

// rl_idle lets the progress thread sleep for ns, until a kick, or until it is to leave. posts is w->posts as the thread last saw it.
void rl_idle(rl_world *w, int64_t ns, uint32_t posts);

// rl_kick wakes the progress thread if it idles: something was posted.
void rl_kick(rl_world *w);

// rl_end_push moves the sends of an end and matches its receives, unless its owner is at it.
void rl_end_push(rl_end *e);

// rl_comm_create makes a communicator of n ranks of the world, in that order, that tools show under a name; collective over them.
int rl_comm_create(rl_world *w, const int *ranks, int n, int tag, const char *name, MPI_Comm *out, rl_fault *fault);

// rl_duplicate is MPI_Comm_dup that sleeps while it waits.
int rl_duplicate(MPI_Comm of, const char *name, MPI_Comm *out);

void rl_groups_free(rl_world *w);

int rl_progress_start(rl_world *w);

// rl_peers_ask sends the questions that are wanted, rl_peers_reply answers one, rl_peers_answer takes in an answer: all on the progress thread.
int rl_peers_open(rl_world *w);
void rl_peers_free(rl_world *w);
void rl_peers_ask(rl_world *w);
void rl_peers_reply(rl_world *w, int to);
void rl_peers_answer(rl_world *w, int from);

#endif
