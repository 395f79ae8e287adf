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
typedef struct rl_slot rl_slot;
typedef struct rl_letter rl_letter;
typedef struct rl_mail rl_mail;

// What wakes a progress thread.
typedef struct {
	_Atomic uint32_t posts;  // counts sends and receives posted
	_Atomic uint32_t asleep; // the thread sleeps until posts change
	_Atomic int urged;       // a rank of the node waits for a receive that has been posted here
	char rest[52];
} rl_door;

// A lane takes letters for some ends of a rank; see node.c.
typedef struct {
	_Atomic uint64_t top;    // the newest letter; 0: none
	_Atomic uint32_t bell;   // changes when something else than a letter comes, or a letter while a thread sleeps
	_Atomic uint32_t asleep; // threads that sleep until bell changes
	char rest[48];
} rl_lane;

// A tray holds the letters of a lane that nobody has asked for.
typedef struct {
	_Atomic int busy;
	_Atomic uint32_t generation; // counts how often letters came
	rl_letter *first, *last;
} rl_tray;

enum { LETTER_FREE, LETTER_SENT };

// A letter is one message, in the memory of its sender.
struct rl_letter {
	union {
		uint64_t next;     // on the lane: the one pushed before it
		rl_letter *behind; // in the tray
	};
	rl_letter *ring; // the next of the sender's
	uint64_t space, at;
	int64_t bytes;
	int peer, tag; // the sender, as the communicator numbers it
	int rank;      // the sender's in the world
	uint16_t lane; // of the sender's end
	uint16_t kind;
	_Atomic uint32_t state;
	char data[];
};

enum { LETTER_SIZES = 4 };

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
	rl_door *_Atomic door;       // what wakes the thread: hall, or a place that the ranks of the node reach
	rl_door hall;
	_Atomic int leaving;
	pthread_mutex_t lock;        // ends
	rl_end *ends;
	pthread_t thread;
	int64_t silent_ns;
	_Atomic int64_t woken, missed; // see rl_world_waits

	// Of ranks that have left; see peers.c.
	_Atomic int64_t gone_ns; // when nobody should wait for this rank any more; 0: not yet
	_Atomic int asking;      // questions without an answer
	rl_peer *peers;          // of each rank

	// Of ranks of the node; see node.c.
	int crowded;   // the node has fewer cores than ranks
	char **region; // the memory that each rank shares, NULL for a rank of another node; NULL: there is none
	int64_t own_bytes;
	pthread_mutex_t mail;
	char *letters, *letters_end; // memory for letters that were never used
	rl_letter *spare[LETTER_SIZES];
	rl_tray tray[RL_LANES];
};

// A slot is one request under way.
enum { FREE, UNMATCHED, UNDERWAY, DONE };

struct rl_slot {
	MPI_Request req;
	int state;
	int code; // MPI error, once DONE
	uint32_t generation, index;
	int sending, peer, tag;
	uintptr_t buf;
	int64_t bytes, got;
	void *scratch;                 // takes a message that is longer than the buffer
	int near;                      // rank in the world of a peer of this node, whose messages are letters; -1: MPI's
	int by_mpi;                    // req is a request of MPI
	rl_letter *letter;             // sent, and not copied yet; received, and not read yet
	struct rl_slot *next;          // in the free list; behind this one in a line
	struct rl_slot *last;          // of a line's head: the end of the line
	struct rl_slot *right, **left; // of a line's head: among the heads
};

enum { CHUNK = 64, CHUNKS = 1024, RL_DESKS = 256 };

// The requests of an end belong to the thread that uses it. The progress thread looks at them too, so both take `busy`: the owner for an instant, as it never
// waits while it has it, and the progress thread only when it is free.
struct rl_end {
	rl_world *w;
	MPI_Comm comm;
	rl_end *next, **at; // among the world's ends
	_Atomic int busy;
	_Atomic int waited;       // the owner is in rl_wait
	_Atomic int sends, lines, desks; // how many
	rl_slot *free;
	rl_slot *heads; // lines of receives that MPI's messages match
	rl_slot *desk[RL_DESKS]; // lines of receives that letters match, by rl_desk_of
	int looked_mpi; // the last look saw a request of MPI's that is not done
	int stuck;      // and a send that this rank of the node has not taken; -1: none
	// Of letters; see node.c.
	uint64_t space;
	int process, lane;
	int fresh;         // receives were posted since the last match
	uint32_t seen;     // the tray's generation then
	rl_letter *letter[LETTER_SIZES]; // rings: the one used last
	int letters[LETTER_SIZES];       // how many
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

// The next eight are in wake.c, which calls no other file.

// A post is what a thread waits for: that word differs from old, or that top, if there is one, is not 0.
typedef struct {
	_Atomic uint32_t *word, *asleep;
	uint32_t old;
	_Atomic uint64_t *top;
} rl_post;

// rl_pause is the next pause of a wait that has taken `waited` ns so far and polls MPI: at first it returns 0 at once, then it yields, then it sleeps, where
// there is a post until it comes. w is NULL where there is no post, and it does not matter whether ranks have cores of their own.
int rl_pause(rl_world *w, int64_t waited, const rl_post *p);

// rl_spin looks for a post in the first 20 us of a wait: 1 if it came. Where ranks share cores it returns 0 at once.
int rl_spin(const rl_world *w, const rl_post *p, int64_t *waited_ns);

// rl_rest sleeps until a post comes (1), for about sleep_ns at most. *waited_ns is how long the wait has taken.
int rl_rest(const rl_post *p, int64_t *waited_ns, int64_t sleep_ns);

// rl_slice is how long a wait may last before Go looks around: longer the longer the wait.
int64_t rl_slice(int64_t waited);

// rl_ring changes the word and wakes who sleeps for it.
void rl_ring(_Atomic uint32_t *word, _Atomic uint32_t *asleep);

// rl_backoff sleeps for 1/64 of the time waited so far.
void rl_backoff(int64_t waited);

// rl_sleep is nanosleep on time: with the default timer slack a sleep of 1 us takes 56 us. A signal may end it early, which is harmless.
void rl_sleep(int64_t ns);

// rl_settle sleeps until a request is done that other processes may join late.
int rl_settle(MPI_Request *req);

// rl_idle lets the progress thread sleep for ns, until a kick, or until it is to leave. posts is the door's as the thread last saw it.
void rl_idle(rl_world *w, int64_t ns, uint32_t posts);

// rl_kick wakes the progress thread if it idles: something was posted.
void rl_kick(rl_world *w);

// Lines, in line.c: the receives for one sender and tag that have no message yet, in the order in which they were posted. Their heads are in heads or in desk.
rl_slot *rl_line_find(rl_slot *heads, int peer, int tag);
rl_slot **rl_desk_of(rl_end *e, int peer, int tag);
void rl_line_join(rl_end *e, rl_slot *s);
void rl_line_leave(rl_end *e, rl_slot *s);

// Letters, in node.c. rl_letter_send posts a send: 0, or MPI's error. rl_letter_left reports whether its letter has been copied. rl_letters_match returns the
// receives that have got their letters, in a list; rl_letter_read fills one: 1 if MPI brings the message itself. rl_letters_leave gives up an end's letters.
int rl_letter_send(rl_end *e, rl_slot *s, int rank, int lane);
int rl_letter_left(rl_slot *s);
rl_slot *rl_letters_match(rl_end *e);
int rl_letter_read(rl_end *e, rl_slot *s);
void rl_letters_leave(rl_end *e);
rl_lane *rl_end_lane(const rl_end *e);

// rl_urge lets the progress thread of a rank of the node match the receives that were posted there.
void rl_urge(rl_world *w, int rank);

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
