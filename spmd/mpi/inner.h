// Declarations shared by the C files. Go sees only shim.h and native.h.
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

// Tags of the messages between progress threads.
enum { BEAT_TAG, QUESTION_TAG, ANSWER_TAG };

typedef struct rl_peer rl_peer;
typedef struct rl_slot rl_slot;
typedef struct rl_message rl_message;

// The wake word of a progress thread. The thread sleeps until posts changes.
typedef struct {
	_Atomic uint32_t posts;    // counts sends and receives posted
	_Atomic uint32_t sleepers; // 1 while the thread sleeps
	_Atomic int match_wanted;  // 1 if a rank of the node waits until this rank matches a posted receive
	char padding[52];
} rl_wake_word;

// An inbox takes messages for some ends of a rank; see node.c.
typedef struct {
	_Atomic uint64_t top;      // the newest message; 0 if there is none
	_Atomic uint32_t word;     // changes if a message comes while a thread sleeps, and at other events
	_Atomic uint32_t sleepers; // number of threads that sleep until word changes
	char padding[48];
} rl_inbox;

// The unexpected messages of an inbox, which no posted receive has matched yet, in the order of arrival.
typedef struct {
	_Atomic int busy;
	_Atomic uint32_t generation; // counts arrivals
	rl_message *first, *last;
} rl_unexpected;

enum { MESSAGE_FREE, MESSAGE_SENT, MESSAGE_COPIED };

// A message through shared memory, stored in the memory of its sender. The data follows this header if the message is
// short.
struct rl_message {
	union {
		uint64_t next;     // in an inbox, a reference to the message that was pushed before this one
		rl_message *later; // among unexpected messages, the next message
	};
	rl_message *ring; // links the sender's messages of this size
	uint64_t space, at;
	int64_t bytes;
	int peer, tag;  // peer is the sender's rank in the communicator
	int rank;       // the sender's rank in the world
	uint16_t inbox; // the inbox of the sender's end
	uint16_t kind;
	_Atomic uint32_t state;
	char data[];
};

enum { MESSAGE_SIZES = 4 };

struct rl_group {
	MPI_Comm comm;
	rl_group *next;
};

struct rl_world {
	MPI_Comm world; // the processes that run this program
	MPI_Comm beats; // a duplicate of world for heartbeats
	MPI_Comm node;  // the processes that share memory with this process
	MPI_Comm plane[MAX_PLANES]; // duplicates of world for messages
	int planes;
	rl_group *groups, **last_group; // in the order in which they were made
	int rank, size;
	char name[RL_NAME]; // host and process
	int64_t beat_ns, stall_ns;
	int overruns; // 1 if this MPI writes past the end of a buffer that is too short: see request.c

	// Fields of the progress thread; see progress.c.
	_Atomic int sends, receives; // numbers of MPI's sends and receives under way
	_Atomic int waiters;         // number of threads that poll MPI in a wait, and so progress all requests
	rl_wake_word *_Atomic wake;  // wakes the thread: &own_wake, or a word in memory that the node's ranks share
	rl_wake_word own_wake;
	_Atomic int leaving;
	pthread_mutex_t lock; // guards ends
	rl_end *ends;
	pthread_t thread;
	int64_t silent_ns;
	_Atomic int64_t woken, missed; // see rl_world_waits

	// Ranks whose program has ended; see peers.c.
	_Atomic int64_t gone_ns; // time from which waits for this rank are errors; 0 if this rank has not left
	_Atomic int asking;      // number of questions that are not answered yet
	rl_peer *peers;          // one for each rank

	// Ranks of the node; see node.c.
	int oversubscribed; // 1 if the node has fewer cores than ranks
	char **region;      // region[r] is rank r's shared memory, or NULL on another node; NULL if no memory is shared
	int64_t own_bytes;
	pthread_mutex_t message_lock;        // guards the next three fields
	char *message_mem, *message_mem_end; // unused memory for messages
	rl_message *spare[MESSAGE_SIZES];
	rl_unexpected unexpected[RL_INBOXES];
};

// The states of a slot. A slot is one request.
enum { FREE, UNMATCHED, UNDERWAY, DONE };

struct rl_slot {
	MPI_Request req;
	int state;
	int code; // MPI error, once DONE
	uint32_t generation, index;
	int sending, peer, tag;
	uintptr_t buf;
	int64_t bytes, got;
	void *scratch;       // buffer for a message that is longer than buf
	int near;            // world rank of a peer that shares memory with this rank; -1 if MPI carries the message
	int by_mpi;          // 1 if req is an MPI request
	rl_message *message; // message of a send whose data is not copied yet, or of a receive whose data is not read yet
	rl_slot *next;       // next slot in the free list, or in this slot's queue
	rl_slot *last;       // last slot of the queue; only in the first slot of the queue
	rl_slot *next_queue, **prev_queue; // links to the first slots of other queues; only in the first slot of a queue
};

enum { CHUNK = 64, CHUNKS = 1024, RL_BUCKETS = 256 };

// An end and its requests belong to one thread, the owner. The progress thread tests the requests too, so both lock the
// end. The owner does not wait while it holds the lock, and the progress thread takes the lock only if it is free.
struct rl_end {
	rl_world *w;
	MPI_Comm comm;
	rl_end *next, **prev; // links the ends of the world
	_Atomic int busy;     // the lock
	_Atomic int polling;  // 1 while the owner polls MPI in rl_wait
	_Atomic int sends;    // number of MPI's sends under way
	_Atomic int probe_queues, bucket_queues; // number of queues in the list probed, and in all buckets
	rl_slot *free;
	rl_slot *probed;             // queues of receives that wait for a matched probe of MPI
	rl_slot *bucket[RL_BUCKETS]; // queues of receives that wait for a message of the node; see rl_bucket_of
	int needs_mpi; // 1 if the last test saw an MPI request that is not done
	int uncopied;  // a rank of the node that had not copied a message at the last test; -1 if there is none
	// Messages through shared memory; see node.c.
	uint64_t space;
	int process, inbox;
	int fresh;     // 1 if receives were posted since the last match
	uint32_t seen; // the generation of the unexpected messages at the last match
	rl_message *message[MESSAGE_SIZES]; // one ring of messages per size; each entry is the message used last
	int messages[MESSAGE_SIZES];        // lengths of the rings
	int chunks;
	rl_slot *chunk[CHUNKS];
};

// TRY runs an MPI call. If the call fails, the function around it writes the call's name and code to *fault and
// returns the code.
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

// The next ten functions are in wake.c, which calls no other file.

// An event ends a wait. It has come once the word differs from its old value, or top is not 0. top may be NULL.
typedef struct {
	_Atomic uint32_t *word, *sleepers;
	uint32_t old;
	_Atomic uint64_t *top;
} rl_event;

// rl_pause pauses a wait that polls MPI and has taken waited_ns so far. Early in the wait it returns 0 at once, later
// it yields, and then it sleeps. The event ev ends the sleep. ev may be NULL. In that case w may be NULL too, and
// rl_pause then assumes that every rank has a core.
int rl_pause(rl_world *w, int64_t waited_ns, const rl_event *ev);

// rl_spin polls for an event in the first 20 us of a wait. It returns 1 if the event has come. If ranks share cores, it
// returns 0 at once. It updates *waited_ns, the time that the wait has taken.
int rl_spin(const rl_world *w, const rl_event *ev, int64_t *waited_ns);

// rl_sleep_for sleeps for about sleep_ns or until the event comes. It returns 1 if the event has come. It adds the time
// of the sleep to *waited_ns.
int rl_sleep_for(const rl_event *ev, int64_t *waited_ns, int64_t sleep_ns);

// rl_slice returns how long a wait may stay in C before it returns to Go. This time grows with the time waited.
int64_t rl_slice(int64_t waited_ns);

// rl_wake changes the word and wakes the threads that sleep on it.
void rl_wake(_Atomic uint32_t *word, _Atomic uint32_t *sleepers);

// rl_backoff sleeps for 1/64 of the time waited so far.
void rl_backoff(int64_t waited_ns);

// rl_sleep sleeps for ns, without timer slack. With timer slack a sleep of 1 us takes 56 us. A signal may end it early.
void rl_sleep(int64_t ns);

// rl_wait_asleep waits for a request. It sleeps between tests, because other processes may call late.
int rl_wait_asleep(MPI_Request *req);

// rl_idle puts the progress thread to sleep for ns, or until the count of its wake word differs from posts. After
// rl_world_leave, it returns at once.
void rl_idle(rl_world *w, int64_t ns, uint32_t posts);

// rl_wake_progress notifies the progress thread of a new request, and wakes it if it sleeps in rl_idle.
void rl_wake_progress(rl_world *w);

// Queues, in queue.c. A queue holds the receives for one sender and tag that have no message yet, in posted order. The
// first slot of each queue is in the list rl_end.probed or in a bucket.
rl_slot *rl_queue_find(rl_slot *first, int peer, int tag);
rl_slot **rl_bucket_of(rl_end *e, int peer, int tag);
void rl_queue_add(rl_end *e, rl_slot *s);
void rl_queue_remove(rl_end *e, rl_slot *s);

// Messages through shared memory, in node.c. rl_message_send posts a send and returns 0 or an MPI error code.
// rl_message_copied reports whether the receiver has copied the data. rl_inbox_match returns the list of receives that
// a message has matched. rl_message_read completes a receive of that list, or returns 1 if MPI carries the data.
// rl_messages_release returns an end's messages to the world. rl_messages_discard drops unreceived messages.
int rl_message_send(rl_end *e, rl_slot *s, int rank, int inbox);
int rl_message_copied(rl_slot *s);
rl_slot *rl_inbox_match(rl_end *e);
int rl_message_read(rl_end *e, rl_slot *s);
void rl_messages_release(rl_end *e);
void rl_messages_discard(rl_world *w);
rl_inbox *rl_end_inbox(const rl_end *e);

// rl_wake_peer makes the progress thread of another rank of the node match the receives posted there.
void rl_wake_peer(rl_world *w, int rank);

// rl_end_progress progresses the sends of an end and matches its receives, unless its owner has locked it.
void rl_end_progress(rl_end *e);

// rl_comm_create makes a communicator of n ranks of the world, in the order of ranks, and names it for debuggers and
// profilers. It is collective over these ranks.
int rl_comm_create(rl_world *w, const int *ranks, int n, int tag, const char *name, MPI_Comm *out, rl_fault *fault);

// rl_duplicate duplicates a communicator and names the duplicate. It sleeps while it waits.
int rl_duplicate(MPI_Comm of, const char *name, MPI_Comm *out);

void rl_groups_free(rl_world *w);

int rl_progress_start(rl_world *w);

// rl_peers_forget clears the records of ranks that have left, including this rank. All questions must be answered
// before.
void rl_peers_forget(rl_world *w);

// Only the progress thread calls three of these functions: rl_peers_ask sends the wanted questions, rl_peers_reply
// answers a question, and rl_peers_answer receives an answer.
int rl_peers_open(rl_world *w);
void rl_peers_free(rl_world *w);
void rl_peers_ask(rl_world *w);
void rl_peers_reply(rl_world *w, int to);
void rl_peers_answer(rl_world *w, int from);

#endif
