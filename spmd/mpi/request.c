//go:build mpi

// Posts requests without blocking, and waits for them in rl_wait.
//
// A message that is longer than its receive buffer is an error, and must not change memory behind the buffer. Open MPI
// 4.1.4 changes that memory when it moves data by RDMA, also in its own shared memory and over TCP. rl_world_open tests
// whether this MPI has the bug. If it has, receives are not posted to MPI, but queued per (sender, tag) until a matched
// probe returns the message and its size.

#include "inner.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

// If an end has at most FEW queues, the test of a request probes for messages of all queues. Otherwise it probes only
// for messages of the request's queue.
enum { FEW = 16 };

enum { WAKE_PEER_NS = 1000 * 1000 }; // how long a send waits before it wakes the receiver's progress thread

rl_end *rl_end_open(rl_world *w, const rl_group *group, int plane, uint64_t space, int process, int inbox) {
	rl_end *e = calloc(1, sizeof *e);
	if (!e) return NULL;
	e->w = w;
	e->comm = group ? group->comm : w->plane[plane];
	e->space = space;
	e->process = process;
	e->inbox = inbox;
	pthread_mutex_lock(&w->lock);
	e->next = w->ends;
	e->prev = &w->ends;
	if (e->next) e->next->prev = &e->next;
	w->ends = e;
	pthread_mutex_unlock(&w->lock);
	return e;
}

static int end_trylock(rl_end *e) {
	int idle = 0;
	return atomic_compare_exchange_strong_explicit(&e->busy, &idle, 1, memory_order_acquire, memory_order_relaxed);
}

static void end_lock(rl_end *e) {
	while (!end_trylock(e)) sched_yield();
}

static void end_unlock(rl_end *e) { atomic_store_explicit(&e->busy, 0, memory_order_release); }

static rl_slot *slot_at(rl_end *e, int i) { return &e->chunk[i / CHUNK][i % CHUNK]; }

static rl_slot *slot_take(rl_end *e) {
	if (!e->free) {
		rl_slot *chunk = e->chunks < CHUNKS ? calloc(CHUNK, sizeof *chunk) : NULL;
		if (!chunk) return NULL;
		for (int i = CHUNK - 1; i >= 0; i--) {
			chunk[i].index = (uint32_t)(e->chunks * CHUNK + i);
			chunk[i].next = e->free;
			e->free = &chunk[i];
		}
		e->chunk[e->chunks++] = chunk;
	}
	rl_slot *s = e->free;
	e->free = s->next;
	s->next = NULL;
	return s;
}

static void slot_give(rl_end *e, rl_slot *s) {
	s->generation++;
	s->state = FREE;
	s->next = e->free;
	e->free = s;
}

static uint64_t handle_of(const rl_slot *s) {
	return (uint64_t)(s->generation & 0x7fffffff) << 32 | (s->index + 1);
}

static rl_slot *slot_of(rl_end *e, uint64_t handle) {
	uint32_t i = (uint32_t)handle - 1;
	if (i >= (uint32_t)e->chunks * CHUNK) return NULL;
	rl_slot *s = slot_at(e, (int)i);
	return handle_of(s) == handle && s->state != FREE ? s : NULL;
}

int rl_is_open(rl_end *e, uint64_t handle) { return slot_of(e, handle) != NULL; }

static void describe(const rl_slot *s, rl_fault *out) {
	out->call = NULL;
	out->code = s->code;
	out->sending = s->sending;
	out->peer = s->peer;
	out->tag = s->tag;
	out->bytes = s->bytes;
}

static void fill(rl_slot *s, int sending, uintptr_t buf, int64_t n, int peer, int tag, int near) {
	s->code = MPI_SUCCESS;
	s->sending = sending;
	s->peer = peer;
	s->tag = tag;
	s->buf = buf;
	s->bytes = n;
	s->got = 0;
	s->scratch = NULL;
	s->near = near;
	s->by_mpi = near < 0;
	s->message = NULL;
}

// count adds n to the number of MPI's sends or receives under way.
static void count(rl_end *e, const rl_slot *s, int n) {
	if (s->sending) atomic_fetch_add(&e->sends, n);
	atomic_fetch_add(s->sending ? &e->w->sends : &e->w->receives, n);
}

static int send_by_mpi(rl_end *e, rl_slot *s) {
	int done = 0;
	int rc = MPI_Isend((const void *)s->buf, (int)s->bytes, MPI_BYTE, s->peer, s->tag, e->comm, &s->req);
	// A small message is usually sent by now. The test also starts the transfer of a large message.
	if (rc == MPI_SUCCESS) rc = MPI_Test(&s->req, &done, MPI_STATUS_IGNORE);
	s->state = done ? DONE : UNDERWAY;
	return rc;
}

uint64_t rl_isend(rl_end *e, uintptr_t buf, int64_t n, int to, int tag, int near, int inbox) {
	end_lock(e);
	rl_slot *s = slot_take(e);
	uint64_t handle = RL_BAD;
	int wake = 0;
	if (s) {
		fill(s, 1, buf, n, to, tag, near);
		int rc = near < 0 ? send_by_mpi(e, s) : rl_message_send(e, s, near, inbox);
		wake = s->by_mpi; // even if the send is done, because the library may still have to send its copy
		if (rc != MPI_SUCCESS || s->state == DONE) {
			handle = rc == MPI_SUCCESS ? 0 : RL_BAD | (uint32_t)rc;
			slot_give(e, s);
		} else {
			if (s->by_mpi) count(e, s, 1);
			handle = handle_of(s);
		}
	}
	end_unlock(e);
	if (wake) rl_wake_progress(e->w);
	return handle;
}

// match probes for a message for s, and starts to receive the message. s must be the first receive in its queue. If
// there is no message yet, match returns 0.
static int match(rl_end *e, rl_slot *s) {
	int found = 0, n = 0;
	MPI_Message message;
	MPI_Status st;
	int rc = MPI_Improbe(s->peer, s->tag, e->comm, &found, &message, &st);
	if (rc == MPI_SUCCESS && !found) return 0;
	rl_queue_remove(e, s);
	s->state = UNDERWAY;
	if (rc == MPI_SUCCESS) rc = MPI_Get_count(&st, MPI_BYTE, &n);
	void *to = (void *)s->buf;
	if (rc == MPI_SUCCESS && n > s->bytes) to = s->scratch = malloc((size_t)n);
	if (rc == MPI_SUCCESS && n > s->bytes && !to) rc = MPI_ERR_NO_MEM;
	if (rc == MPI_SUCCESS) rc = MPI_Imrecv(to, n, MPI_BYTE, &message, &s->req);
	if (rc != MPI_SUCCESS) {
		s->req = MPI_REQUEST_NULL;
		s->code = rc;
	}
	return 1;
}

// match_queue matches the receives of a queue, in order, up to the first receive that has no message yet.
static void match_queue(rl_end *e, rl_slot *first) {
	for (rl_slot *behind; first; first = behind) {
		behind = first->next;
		if (!match(e, first)) return;
	}
}

static void match_all(rl_end *e) {
	for (rl_slot *first = e->probed, *next; first; first = next) {
		next = first->next_queue;
		match_queue(e, first);
	}
}

uint64_t rl_irecv(rl_end *e, uintptr_t buf, int64_t n, int from, int tag, int near) {
	end_lock(e);
	rl_slot *s = slot_take(e);
	uint64_t handle = RL_BAD;
	if (s) {
		fill(s, 0, buf, n, from, tag, near);
		int rc = MPI_SUCCESS;
		if (near >= 0 || e->w->overruns)
			rl_queue_add(e, s);
		else if ((rc = MPI_Irecv((void *)buf, (int)n, MPI_BYTE, from, tag, e->comm, &s->req)) == MPI_SUCCESS)
			s->state = UNDERWAY;
		if (near >= 0) e->fresh = 1;
		if (rc != MPI_SUCCESS) {
			handle = RL_BAD | (uint32_t)rc;
			slot_give(e, s);
		} else {
			if (s->by_mpi) count(e, s, 1);
			handle = handle_of(s);
		}
	}
	end_unlock(e);
	if (near < 0) rl_wake_progress(e->w);
	return handle;
}

// complete records the outcome of a request. st is NULL for a request that got no message.
static void complete(rl_end *e, rl_slot *s, int code, MPI_Status *st) {
	int n = 0;
	if (s->code == MPI_SUCCESS) s->code = code;
	if (s->code == MPI_SUCCESS && s->scratch) s->code = MPI_ERR_TRUNCATE;
	if (s->code == MPI_SUCCESS && !s->sending && st) MPI_Get_count(st, MPI_BYTE, &n);
	s->got = n;
	free(s->scratch);
	s->scratch = NULL;
	s->state = DONE;
	if (s->by_mpi) count(e, s, -1);
}

// read_inbox completes the receives whose messages have arrived through shared memory.
static void read_inbox(rl_end *e) {
	for (rl_slot *s = rl_inbox_match(e), *next; s; s = next) {
		next = s->next;
		s->next = NULL;
		s->by_mpi = rl_message_read(e, s);
		s->state = s->by_mpi ? UNDERWAY : DONE;
		if (s->by_mpi) count(e, s, 1);
	}
}

// begin_tests must be called before the tests of slots.
static void begin_tests(rl_end *e) {
	if (e->w->region) read_inbox(e);
	e->needs_mpi = 0;
	e->uncopied = -1;
	if (e->probed && atomic_load(&e->probe_queues) <= FEW) match_all(e);
}

// test_slot tests a request once. It returns 1 if the request is done.
static int test_slot(rl_end *e, rl_slot *s) {
	if (s->state == UNMATCHED && s->near < 0 && atomic_load(&e->probe_queues) > FEW)
		match_queue(e, rl_queue_find(e->probed, s->peer, s->tag));
	if (s->state == UNDERWAY && s->message) {
		if (rl_message_copied(s)) s->state = DONE;
	} else if (s->state == UNDERWAY) {
		int done = 0;
		MPI_Status st;
		int rc = MPI_Test(&s->req, &done, &st);
		if (rc != MPI_SUCCESS || done) complete(e, s, rc, &st);
	}
	return s->state == DONE;
}

void rl_end_progress(rl_end *e) {
	if (!(atomic_load(&e->sends) || atomic_load(&e->probe_queues) || atomic_load(&e->bucket_queues))) return;
	if (!end_trylock(e)) return;
	if (atomic_load(&e->bucket_queues)) read_inbox(e);
	for (int i = 0; atomic_load(&e->sends) && i < e->chunks * CHUNK; i++) {
		rl_slot *s = slot_at(e, i);
		if (s->state == UNDERWAY && s->sending && s->by_mpi) test_slot(e, s);
	}
	match_all(e);
	end_unlock(e);
}

// finish frees the slot of a request that is DONE and returns the request's result: 0 or RL_FAULT.
static int finish(rl_end *e, rl_slot *s, rl_request *req, rl_fault *fault) {
	int failed = s->code != MPI_SUCCESS;
	if (failed) describe(s, fault);
	req->handle = 0;
	req->n = s->got;
	slot_give(e, s);
	return failed ? RL_FAULT : 0;
}

// test tests one request. It returns 0 if the request is done, RL_PENDING, RL_FAULT or RL_UNKNOWN.
static int test(rl_end *e, rl_request *req, rl_fault *fault) {
	rl_slot *s = slot_of(e, req->handle);
	if (!s) return RL_UNKNOWN;
	if (test_slot(e, s)) return finish(e, s, req, fault);
	if (s->by_mpi) e->needs_mpi = 1;
	if (s->sending && s->near >= 0) e->uncopied = s->near;
	return RL_PENDING;
}

int rl_test(rl_end *e, rl_request *req, rl_fault *fault) {
	end_lock(e);
	begin_tests(e);
	int r = test(e, req, fault);
	end_unlock(e);
	return r;
}

// test_all tests reqs in order, from index *first on, until a request is not done. It sets *first to the index of that
// request. Later requests need no test, since one test progresses all requests.
static int test_all(rl_end *e, rl_request *reqs, int n, int *first, rl_fault *fault) {
	for (; *first < n; ++*first) {
		if (!reqs[*first].handle) continue;
		int r = test(e, &reqs[*first], fault);
		if (r) return r;
	}
	return 0;
}

static int test_any(rl_end *e, rl_request *reqs, int n, rl_fault *fault) {
	int result = RL_ALL_ZERO;
	for (int i = 0; i < n; i++) {
		if (!reqs[i].handle) continue;
		int r = test(e, &reqs[i], fault);
		if (r != RL_PENDING) return r ? r : i;
		result = RL_PENDING;
	}
	return result;
}

static int try_tests(rl_end *e, rl_request *reqs, int n, int any, int *first, rl_fault *fault) {
	if (!end_trylock(e)) { // the progress thread has the lock, so this round cannot test
		e->needs_mpi = 1;
		e->uncopied = -1;
		return RL_PENDING;
	}
	begin_tests(e);
	int r = any ? test_any(e, reqs, n, fault) : test_all(e, reqs, n, first, fault);
	end_unlock(e);
	return r;
}

// poll_mpi records that this thread begins to poll MPI (on = 1) or ends (on = 0). While a thread polls MPI, it
// progresses all requests in place of the progress thread.
static void poll_mpi(rl_end *e, int on) {
	atomic_fetch_add(&e->w->waiters, on ? 1 : -1);
	atomic_store(&e->polling, on);
	if (!on && (atomic_load(&e->w->sends) || atomic_load(&e->w->receives))) rl_wake_progress(e->w);
}

int rl_wait(rl_end *e, rl_request *reqs, int n, int any, int64_t *waited_ns, rl_go_event *go_ev, rl_fault *fault) {
	rl_world *w = e->w;
	rl_inbox *inbox = w->region ? rl_end_inbox(e) : NULL;
	rl_event ev = {0};
	if (inbox) ev = (rl_event){&inbox->word, &inbox->sleepers, atomic_load(&inbox->word), &inbox->top};
	int first = 0, r = try_tests(e, reqs, n, any, &first, fault);
	while (r == RL_PENDING && inbox && !e->needs_mpi && rl_spin(w, &ev, waited_ns)) {
		ev.old = atomic_load(&inbox->word);
		r = try_tests(e, reqs, n, any, &first, fault);
	}
	if (r != RL_PENDING) return r;
	if (inbox && !e->needs_mpi && *waited_ns < RL_SHORT_SLEEP_NS) {
		*go_ev = (rl_go_event){&inbox->word, &inbox->sleepers, &inbox->top, ev.old};
		return RL_SHORT_SLEEP;
	}
	int64_t before = *waited_ns, start = rl_now(), waited = before, slept = before, slice = rl_slice(before);
	int polling = 0, woke_peer = 0;
	for (int round = 1; r == RL_PENDING && waited < before + slice; round++) {
		int paused = 1, mpi = e->needs_mpi || !inbox, uncopied = e->uncopied;
		if (mpi != polling) poll_mpi(e, polling = mpi);
		int timed_out = 0; // the sleep ended by its time limit, without a test of MPI
		if (mpi)
			paused = rl_pause(w, waited, inbox ? &ev : NULL);
		else
			timed_out = !rl_sleep_for(&ev, &slept, uncopied >= 0 && !woke_peer ? WAKE_PEER_NS : slice);
		if (uncopied >= 0 && !woke_peer && waited > WAKE_PEER_NS) rl_wake_peer(w, uncopied), woke_peer = 1;
		if (inbox) ev.old = atomic_load(&inbox->word);
		r = try_tests(e, reqs, n, any, &first, fault);
		if (timed_out && r != RL_PENDING) atomic_fetch_add(&w->missed, 1);
		if (paused || round % 8 == 0) waited = before + rl_now() - start; // rl_now takes longer than a round that spins
	}
	if (r == RL_PENDING) { // match all queues, and check whether a later request has failed
		end_lock(e);
		match_all(e);
		for (int i = first + 1; r == RL_PENDING && !any && i < n; i++)
			if (reqs[i].handle && (r = test(e, &reqs[i], fault)) == 0) r = RL_PENDING;
		end_unlock(e);
	}
	if (polling) poll_mpi(e, 0);
	*waited_ns = before + rl_now() - start;
	return r;
}

void rl_world_waits(rl_world *w, int64_t *woken, int64_t *missed) {
	*woken = atomic_load(&w->woken);
	*missed = atomic_load(&w->missed);
}

int rl_cancel(rl_end *e, rl_request *req, rl_fault *fault) {
	end_lock(e);
	begin_tests(e);
	rl_slot *s = slot_of(e, req->handle);
	int r = !s ? RL_UNKNOWN : RL_PENDING;
	if (s && !s->sending && !test_slot(e, s)) {
		int done = 1, cancelled = 1, rc = MPI_SUCCESS;
		MPI_Status st;
		if (s->state == UNMATCHED) {
			rl_queue_remove(e, s);
		} else {
			rc = MPI_Cancel(&s->req);
			if (rc == MPI_SUCCESS) rc = MPI_Test(&s->req, &done, &st);
			if (rc == MPI_SUCCESS && done) MPI_Test_cancelled(&st, &cancelled);
		}
		if (rc != MPI_SUCCESS || done) complete(e, s, rc, cancelled ? NULL : &st);
		if (s->state == DONE && (rc != MPI_SUCCESS || cancelled)) r = finish(e, s, req, fault);
	}
	end_unlock(e);
	return r;
}

int rl_end_next(rl_end *e, int from, rl_fault *out) {
	int next = -1;
	end_lock(e);
	for (int i = from; next < 0 && i < e->chunks * CHUNK; i++) {
		rl_slot *s = slot_at(e, i);
		if (s->state == FREE) continue;
		describe(s, out);
		next = i + 1;
	}
	end_unlock(e);
	return next;
}

int rl_end_request(rl_end *e, uint64_t handle, rl_fault *out) {
	end_lock(e);
	rl_slot *s = slot_of(e, handle);
	if (s) describe(s, out);
	end_unlock(e);
	return s ? 0 : RL_UNKNOWN;
}

void rl_end_close(rl_end *e) {
	rl_world *w = e->w;
	pthread_mutex_lock(&w->lock); // from here on the progress thread does not see the end
	*e->prev = e->next;
	if (e->next) e->next->prev = e->prev;
	pthread_mutex_unlock(&w->lock);
	for (int i = 0; i < e->chunks * CHUNK; i++) {
		rl_slot *s = slot_at(e, i);
		if (s->state == FREE || test_slot(e, s)) continue;
		if (s->state == UNDERWAY && s->by_mpi && !s->sending && !s->scratch) MPI_Cancel(&s->req);
		if (s->state == UNDERWAY && s->by_mpi) MPI_Request_free(&s->req);
		if (s->by_mpi) count(e, s, -1);
	}
	rl_messages_release(e);
	for (int i = 0; i < e->chunks; i++) free(e->chunk[i]);
	free(e);
}
