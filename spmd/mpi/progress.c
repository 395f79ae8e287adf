//go:build mpi

// The progress thread. It progresses MPI's requests while all workers of a process compute, because MPI moves messages
// only inside its calls. It tests the requests every 100 us if there are sends, and every 1 ms if there are only
// receives. It sleeps while there are no requests, or while another thread polls MPI in a wait and so progresses all
// requests. The thread also sends heartbeats to the next rank and receives those of the previous rank.

#include "inner.h"

#include <signal.h>

enum { SEND_NS = 100 * 1000, RECEIVE_NS = 1000 * 1000, IDLE_NS = 50 * 1000 * 1000 };
enum { QUEUE_NS = 3 * 1000 }; // additional sleep per probed queue; a probe takes 150 ns, so probes take 5 % of a core

enum { ALIVE = 1, GOODBYE = 2 };

typedef struct {
	int before, after;  // the neighbours in the ring of ranks
	int64_t heard, due; // time of the previous rank's last beat; time at which this rank's next beat is due
	int64_t word;       // the buffer of the beat that is being sent
	MPI_Request req;    // the send of a beat
	int left, said;     // 1 if the previous rank has said goodbye; 1 if this rank has said goodbye
} heartbeat;

// poll_beats progresses MPI, and receives the messages of other progress threads. A probe finds each message before it
// is received, so no receive waits.
static void poll_beats(rl_world *w, heartbeat *h, int64_t now) {
	for (;;) {
		int found = 0;
		MPI_Status st;
		if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, w->beats, &found, &st) != MPI_SUCCESS || !found) return;
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

// beat sends a heartbeat if one is due. Only one heartbeat is under way at a time, so a stopped neighbour costs no
// memory.
static void beat(rl_world *w, heartbeat *h, int64_t now, int leaving) {
	int done = 0;
	if (MPI_Test(&h->req, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done || h->said) return;
	if (now < h->due && !leaving) return;
	h->word = leaving ? GOODBYE : ALIVE;
	h->said = leaving;
	h->due = now + w->beat_ns;
	MPI_Isend(&h->word, 1, MPI_INT64_T, h->after, BEAT_TAG, w->beats, &h->req);
}

// progress_ends progresses the requests under way. It returns the number of queues that only this thread probes,
// because a thread that polls MPI in rl_wait matches only the receives of its own end.
static int progress_ends(rl_world *w, int polled, int match_wanted) {
	int queues = 0;
	pthread_mutex_lock(&w->lock);
	for (rl_end *e = w->ends; e; e = e->next) {
		if (polled && !match_wanted && (atomic_load(&e->polling) || !atomic_load(&e->probe_queues))) continue;
		rl_end_progress(e);
		queues += atomic_load(&e->probe_queues);
	}
	pthread_mutex_unlock(&w->lock);
	return queues;
}

// said_goodbye reports whether the previous rank's goodbye has arrived and this rank's goodbye has been sent.
static int said_goodbye(heartbeat *h) {
	int done = 0;
	return h->said && h->left && MPI_Test(&h->req, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done;
}

static void *progress(void *arg) {
	rl_world *w = arg;
	int64_t now = rl_now(), last = now, active = now;
	uint32_t seen = 0;
	heartbeat h = {.before = (w->rank + w->size - 1) % w->size, .after = (w->rank + 1) % w->size, .heard = now,
		.req = MPI_REQUEST_NULL};
	for (;; last = now) {
		now = rl_now();
		// A round takes one beat at most. If this round took much longer, this process itself was stopped. It does
		// not know whether its neighbour was silent.
		if (now - last > 3 * w->beat_ns) h.heard = now;

		int leaving = atomic_load(&w->leaving), polled = atomic_load(&w->waiters) > 0;
		int sends = atomic_load(&w->sends), receives = atomic_load(&w->receives);
		rl_wake_word *wake = atomic_load(&w->wake);
		uint32_t posts = atomic_load(&wake->posts);
		int match_wanted = atomic_exchange(&wake->match_wanted, 0);
		int queues = sends || receives || match_wanted ? progress_ends(w, polled, match_wanted) : 0;
		int asking = atomic_load(&w->asking);
		if (asking) rl_peers_ask(w);
		if (!polled || leaving || asking || now >= h.due) poll_beats(w, &h, now);
		if (w->size > 1) beat(w, &h, now, leaving);

		if (leaving && (w->size == 1 || said_goodbye(&h))) return NULL;
		if (w->stall_ns > 0 && w->size > 1 && !h.left && now - h.heard > w->stall_ns) {
			w->silent_ns = now - h.heard;
			return NULL;
		}

		int needed = queues || ((sends || receives) && !polled); // some requests are progressed only by this thread
		if (needed || leaving || asking || posts != seen) active = now;
		seen = posts;
		if (sends && !polled) {
			rl_sleep(SEND_NS);
		} else if (now - active < 8 * RECEIVE_NS) {
			rl_sleep(RECEIVE_NS + (int64_t)queues * QUEUE_NS);
		} else {
			// Another thread progresses the requests, or there are none. The library may still have to send copies of
			// messages, so this thread continues to poll, less and less often.
			int64_t ns = (now - active) / 8, most = sends || receives ? IDLE_NS : w->beat_ns;
			if (most > w->beat_ns) most = w->beat_ns;
			rl_idle(w, ns < most ? ns : most, posts);
		}
	}
}

int rl_progress_start(rl_world *w) {
	atomic_store(&w->wake, &w->own_wake);
	pthread_mutex_init(&w->lock, NULL);
	pthread_mutex_init(&w->message_lock, NULL);
	sigset_t all, old;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old); // the thread inherits a mask that blocks all signals: Go handles them
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
	rl_wake_progress(w);
}
