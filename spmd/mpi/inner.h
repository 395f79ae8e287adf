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

struct rl_world {
	MPI_Comm world;   // the processes that run this program
	MPI_Comm beats;   // the same, for heartbeats alone
	int rank, size;
	int64_t beat_ns, stall_ns;

	// What the progress thread goes by; see progress.c.
	_Atomic int sends, receives; // under way
	_Atomic int waiters;         // threads inside rl_wait, which progress MPI themselves
	_Atomic uint32_t posts;      // counts sends and receives posted
	_Atomic int dozing;          // the thread sleeps until it is kicked
	_Atomic int leaving;
	pthread_mutex_t lock;        // ends, and the kick
	pthread_cond_t kick;
	rl_end *ends;
	pthread_t thread;
	int64_t silent_ns;
};

struct rl_group {
	rl_world *w;
	MPI_Comm comm;
	_Atomic int ends;
	int owned; // comm is freed with the group
};

// A slot is one request under way. Its owner is the thread that uses the end; the progress thread tests sends too, so whoever tests a send claims it by
// UNDERWAY → TESTING first.
enum { FREE, UNDERWAY, TESTING, DONE };

typedef struct rl_slot {
	MPI_Request req;
	_Atomic int state;
	int code; // MPI error, once DONE
	uint32_t generation, index;
	int sending, peer, tag;
	int64_t bytes, got;
	struct rl_slot *next; // in the free list
} rl_slot;

enum { CHUNK = 64, CHUNKS = 1024 };

struct rl_end {
	rl_group *group;
	rl_end *next, **at;
	rl_slot *free;
	_Atomic int chunks;
	_Atomic int sends; // under way on this end
	rl_slot *chunk[CHUNKS];
};

static inline int64_t rl_now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

// nanosleep on time: with the default timer slack a sleep of 1 us takes 56 us. EINTR means that we woke early, which is harmless.
void rl_sleep(int64_t ns);

// rl_kick wakes the progress thread if it dozes: something was posted.
void rl_kick(rl_world *w);

// rl_slot_test tests a request once and reports whether it is done. Any thread.
int rl_slot_test(rl_end *e, rl_slot *s);

int rl_progress_start(rl_world *w);

#endif
