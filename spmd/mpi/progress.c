//go:build mpi

// The progress thread. Nobody moves MPI's messages while all workers of a process compute, so this thread does: it tests what is under way every
// 100 us while a send of ours is among it, every 1 ms while there are receives only, and idles when there is nothing, or while some thread sits in rl_wait,
// which moves everything as well. It also sends a heartbeat to the next rank and listens to that of the rank before.

#include "inner.h"

#include <signal.h>

enum { SEND_NS = 100 * 1000, RECEIVE_NS = 1000 * 1000, IDLE_NS = 50 * 1000 * 1000 };
enum { LINE_NS = 3 * 1000 }; // a look at a line takes 150 ns: at this pace, 5 % of a core

enum { ALIVE = 1, GOODBYE = 2 };

typedef struct {
	int before, after;     // the neighbours in the ring of ranks
	int64_t heard, due;    // when the one before was last heard, when our next beat is due
	int64_t word;          // what is being sent
	MPI_Request req;       // the beat under way
	int left, said;        // the one before said goodbye; so did we
} heartbeat;

// drive lets MPI move everything that is under way, and receives the messages of other progress threads: a probe finds each, so that no receive waits.
static void drive(rl_world *w, heartbeat *h, int64_t now) {
	for (;;) {
		int there = 0;
		MPI_Status st;
		if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, w->beats, &there, &st) != MPI_SUCCESS || !there) return;
		int64_t word = 0;
		switch (st.MPI_TAG) {
		case BEAT_TAG:
			MPI_Recv(&word, 1, MPI_INT64_T, h->before, BEAT_TAG, w->beats, MPI_STATUS_IGNORE);
			h->heard = now;
			h->left |= word == GOODBYE;
			break;
		case QUESTION_TAG: rl_peers_reply(w, st.MPI_SOURCE); break;
		case ANSWER_TAG: rl_peers_answer(w, st.MPI_SOURCE); break;
		}
	}
}

// beat sends what the next rank should hear; one at a time, so that a stopped neighbour costs no memory.
static void beat(rl_world *w, heartbeat *h, int64_t now, int leaving) {
	int done = 0;
	if (MPI_Test(&h->req, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done || h->said) return;
	if (now < h->due && !leaving) return;
	h->word = leaving ? GOODBYE : ALIVE;
	h->said = leaving;
	h->due = now + w->beat_ns;
	MPI_Isend(&h->word, 1, MPI_INT64_T, h->after, BEAT_TAG, w->beats, &h->req);
}

// push_ends moves what is under way, and returns in how many lines receives stand that only this thread matches. A thread in rl_wait moves everything, but
// matches the receives of its own end alone.
static int push_ends(rl_world *w, int waited, int urged) {
	int lines = 0;
	pthread_mutex_lock(&w->lock);
	for (rl_end *e = w->ends; e; e = e->next) {
		if (waited && !urged && (atomic_load(&e->waited) || !atomic_load(&e->lines))) continue;
		rl_end_push(e);
		lines += atomic_load(&e->lines);
	}
	pthread_mutex_unlock(&w->lock);
	return lines;
}

static void *progress(void *arg) {
	rl_world *w = arg;
	int64_t now = rl_now(), last = now, active = now;
	uint32_t seen = 0;
	heartbeat h = {.before = (w->rank + w->size - 1) % w->size, .after = (w->rank + 1) % w->size, .heard = now, .req = MPI_REQUEST_NULL};
	for (;; last = now) {
		now = rl_now();
		// A round lasts one beat at most. If it took much longer, this process was stopped itself, and knows nothing about its neighbour.
		if (now - last > 3 * w->beat_ns) h.heard = now;

		int leaving = atomic_load(&w->leaving), waited = atomic_load(&w->waiters) > 0;
		int sends = atomic_load(&w->sends), receives = atomic_load(&w->receives);
		rl_door *door = atomic_load(&w->door);
		uint32_t posts = atomic_load(&door->posts);
		int urged = atomic_exchange(&door->urged, 0);
		int lines = sends || receives || urged ? push_ends(w, waited, urged) : 0;
		int asking = atomic_load(&w->asking);
		if (asking) rl_peers_ask(w);
		if (!waited || leaving || asking || now >= h.due) drive(w, &h, now);
		if (w->size > 1) beat(w, &h, now, leaving);

		int done = 0;
		if (leaving && (w->size == 1 || (h.said && h.left && MPI_Test(&h.req, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done))) return NULL;
		if (w->stall_ns > 0 && w->size > 1 && !h.left && now - h.heard > w->stall_ns) {
			w->silent_ns = now - h.heard;
			return NULL;
		}

		int ours = lines || ((sends || receives) && !waited); // to move
		if (ours || leaving || asking || posts != seen) active = now;
		seen = posts;
		if (sends && !waited) {
			rl_sleep(SEND_NS);
		} else if (now - active < 8 * RECEIVE_NS) {
			rl_sleep(RECEIVE_NS + (int64_t)lines * LINE_NS);
		} else {
			// Somebody else moves what is under way, or nothing is, though the library may hold copies of messages that have not left: look ever more seldom.
			int64_t ns = (now - active) / 8, most = sends || receives ? IDLE_NS : w->beat_ns;
			if (most > w->beat_ns) most = w->beat_ns;
			rl_idle(w, ns < most ? ns : most, posts);
		}
	}
}

int rl_progress_start(rl_world *w) {
	atomic_store(&w->door, &w->hall);
	pthread_mutex_init(&w->lock, NULL);
	pthread_mutex_init(&w->mail, NULL);
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); // signals are Go's: the thread inherits that it gets none
	int rc = pthread_create(&w->thread, NULL, progress, w);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

int rl_world_watch(rl_world *w, int64_t *silent_ns) {
	pthread_join(w->thread, NULL);
	*silent_ns = w->silent_ns;
	return w->silent_ns > 0;
}

void rl_world_leave(rl_world *w) {
	atomic_store(&w->leaving, 1);
	rl_kick(w);
}
