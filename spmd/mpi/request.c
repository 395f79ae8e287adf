//go:build mpi

// Requests: posted without blocking, waited for in one place.

#include "inner.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

// How a wait goes on: spin, then give the core away, then sleep ever longer.
enum { SPIN_NS = 20 * 1000, YIELD_NS = 1000 * 1000, SLEEP_MIN_NS = 5 * 1000, SLEEP_MAX_NS = 200 * 1000 };

rl_end *rl_end_open(rl_group *g) {
	rl_end *e = calloc(1, sizeof *e);
	if (!e) return NULL;
	e->group = g;
	atomic_fetch_add(&g->ends, 1);
	rl_world *w = g->w;
	pthread_mutex_lock(&w->lock);
	e->next = w->ends;
	e->at = &w->ends;
	if (e->next) e->next->at = &e->next;
	w->ends = e;
	pthread_mutex_unlock(&w->lock);
	return e;
}

static rl_slot *slot_at(rl_end *e, int i) { return &e->chunk[i / CHUNK][i % CHUNK]; }

static rl_slot *slot_take(rl_end *e) {
	if (!e->free) {
		int k = atomic_load_explicit(&e->chunks, memory_order_relaxed);
		rl_slot *chunk = k < CHUNKS ? calloc(CHUNK, sizeof *chunk) : NULL;
		if (!chunk) return NULL;
		for (int i = CHUNK - 1; i >= 0; i--) {
			chunk[i].index = (uint32_t)(k * CHUNK + i);
			chunk[i].next = e->free;
			e->free = &chunk[i];
		}
		e->chunk[k] = chunk;
		atomic_store_explicit(&e->chunks, k + 1, memory_order_release);
	}
	rl_slot *s = e->free;
	e->free = s->next;
	return s;
}

static void slot_give(rl_end *e, rl_slot *s) {
	s->generation++;
	atomic_store_explicit(&s->state, FREE, memory_order_release);
	s->next = e->free;
	e->free = s;
}

static uint64_t handle_of(const rl_slot *s) { return (uint64_t)(s->generation & 0x7fffffff) << 32 | (s->index + 1); }

static rl_slot *slot_of(rl_end *e, uint64_t handle) {
	uint32_t i = (uint32_t)handle - 1;
	if (i >= (uint32_t)atomic_load_explicit(&e->chunks, memory_order_relaxed) * CHUNK) return NULL;
	rl_slot *s = slot_at(e, (int)i);
	if (handle_of(s) != handle || atomic_load_explicit(&s->state, memory_order_relaxed) == FREE) return NULL;
	return s;
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

static uint64_t posted(rl_end *e, rl_slot *s, int sending, int64_t n, int peer, int tag) {
	rl_world *w = e->group->w;
	s->code = MPI_SUCCESS;
	s->sending = sending;
	s->peer = peer;
	s->tag = tag;
	s->bytes = n;
	s->got = 0;
	if (sending) {
		atomic_fetch_add(&e->sends, 1);
		atomic_fetch_add(&w->sends, 1);
	} else {
		atomic_fetch_add(&w->receives, 1);
	}
	atomic_store_explicit(&s->state, UNDERWAY, memory_order_release);
	rl_kick(w);
	return handle_of(s);
}

uint64_t rl_isend(rl_end *e, uintptr_t buf, int64_t n, int to, int tag) {
	rl_slot *s = slot_take(e);
	if (!s) return RL_BAD;
	int rc = MPI_Isend((const void *)buf, (int)n, MPI_BYTE, to, tag, e->group->comm, &s->req), done = 0;
	// A small message has left by now, as a rule; asking also pushes a large one on its way.
	if (rc == MPI_SUCCESS) rc = MPI_Test(&s->req, &done, MPI_STATUS_IGNORE);
	if (rc != MPI_SUCCESS || done) {
		slot_give(e, s);
		rl_kick(e->group->w); // done for us, though the library may hold a copy that has not left
		return rc == MPI_SUCCESS ? 0 : RL_BAD | (uint32_t)rc;
	}
	return posted(e, s, 1, n, to, tag);
}

uint64_t rl_irecv(rl_end *e, uintptr_t buf, int64_t n, int from, int tag) {
	rl_slot *s = slot_take(e);
	if (!s) return RL_BAD;
	int rc = MPI_Irecv((void *)buf, (int)n, MPI_BYTE, from, tag, e->group->comm, &s->req);
	if (rc != MPI_SUCCESS) {
		slot_give(e, s);
		return RL_BAD | (uint32_t)rc;
	}
	return posted(e, s, 0, n, from, tag);
}

// done records how a claimed request ended.
static void done(rl_end *e, rl_slot *s, int code, MPI_Status *st) {
	int n = 0;
	s->code = code;
	if (!s->sending && code == MPI_SUCCESS) MPI_Get_count(st, MPI_BYTE, &n);
	s->got = n;
	if (s->sending) atomic_fetch_sub(&e->sends, 1);
	atomic_fetch_sub(s->sending ? &e->group->w->sends : &e->group->w->receives, 1);
	atomic_store_explicit(&s->state, DONE, memory_order_release);
}

int rl_slot_test(rl_end *e, rl_slot *s) {
	int state = UNDERWAY;
	if (!atomic_compare_exchange_strong_explicit(&s->state, &state, TESTING, memory_order_acquire, memory_order_acquire)) return state == DONE;
	int over = 0;
	MPI_Status st;
	int rc = MPI_Test(&s->req, &over, &st);
	if (rc != MPI_SUCCESS || over) {
		done(e, s, rc, &st);
		return 1;
	}
	atomic_store_explicit(&s->state, UNDERWAY, memory_order_release);
	return 0;
}

// finish hands a DONE request's result over and frees its slot: 0 or RL_FAULT.
static int finish(rl_end *e, rl_slot *s, rl_request *req, rl_fault *fault) {
	int failed = s->code != MPI_SUCCESS;
	if (failed) describe(s, fault);
	req->handle = 0;
	req->n = s->got;
	slot_give(e, s);
	return failed ? RL_FAULT : 0;
}

// look tests one request: 0 done now or before, RL_PENDING, RL_FAULT, RL_UNKNOWN.
static int look(rl_end *e, rl_request *req, rl_fault *fault) {
	rl_slot *s = slot_of(e, req->handle);
	if (!s) return RL_UNKNOWN;
	return rl_slot_test(e, s) ? finish(e, s, req, fault) : RL_PENDING;
}

int rl_test(rl_end *e, rl_request *req, rl_fault *fault) { return look(e, req, fault); }

// look_all works through reqs in order from *first on, the first that is not done yet: it is enough to test that one, since a test moves them all.
static int look_all(rl_end *e, rl_request *reqs, int n, int *first, rl_fault *fault) {
	for (; *first < n; ++*first) {
		if (!reqs[*first].handle) continue;
		int r = look(e, &reqs[*first], fault);
		if (r) return r;
	}
	return 0;
}

static int look_any(rl_end *e, rl_request *reqs, int n, rl_fault *fault) {
	int some = RL_ALL_ZERO;
	for (int i = 0; i < n; i++) {
		if (!reqs[i].handle) continue;
		int r = look(e, &reqs[i], fault);
		if (r != RL_PENDING) return r ? r : i;
		some = RL_PENDING;
	}
	return some;
}

int rl_wait(rl_end *e, rl_request *reqs, int n, int any, int resumed, rl_fault *fault) {
	rl_world *w = e->group->w;
	int64_t nap = resumed ? SLEEP_MAX_NS : SLEEP_MIN_NS, start = 0;
	int first = 0, r;
	atomic_fetch_add(&w->waiters, 1);
	while ((r = any ? look_any(e, reqs, n, fault) : look_all(e, reqs, n, &first, fault)) == RL_PENDING) {
		int64_t now = rl_now();
		if (!start) start = now;
		if (now - start > RL_SLICE_NS) break;
		if (resumed || now - start > YIELD_NS) {
			rl_sleep(nap);
			if ((nap *= 2) > SLEEP_MAX_NS) nap = SLEEP_MAX_NS;
		} else if (now - start > SPIN_NS) {
			sched_yield();
		}
	}
	// Before going on to wait for the first, see whether one behind it has failed.
	for (int i = first + 1; r == RL_PENDING && !any && i < n; i++)
		if (reqs[i].handle && (r = look(e, &reqs[i], fault)) == 0) r = RL_PENDING;
	atomic_fetch_sub(&w->waiters, 1);
	return r;
}

int rl_cancel(rl_end *e, rl_request *req, rl_fault *fault) {
	rl_slot *s = slot_of(e, req->handle);
	if (!s) return RL_UNKNOWN;
	if (rl_slot_test(e, s)) return RL_PENDING;
	int over = 0, cancelled = 0;
	MPI_Status st;
	int rc = MPI_Cancel(&s->req);
	if (rc == MPI_SUCCESS) rc = MPI_Test(&s->req, &over, &st);
	if (rc == MPI_SUCCESS && !over) return RL_PENDING;
	if (rc == MPI_SUCCESS) MPI_Test_cancelled(&st, &cancelled);
	done(e, s, rc, &st);
	if (rc == MPI_SUCCESS && !cancelled) return RL_PENDING;
	int r = finish(e, s, req, fault);
	req->n = 0;
	return r;
}

int rl_end_next(rl_end *e, int from, rl_fault *out) {
	int n = atomic_load(&e->chunks) * CHUNK;
	for (int i = from; i < n; i++) {
		rl_slot *s = slot_at(e, i);
		if (atomic_load(&s->state) == FREE) continue;
		describe(s, out);
		return i + 1;
	}
	return -1;
}

void rl_end_close(rl_end *e) {
	rl_world *w = e->group->w;
	pthread_mutex_lock(&w->lock); // from here on the progress thread does not see the end
	*e->at = e->next;
	if (e->next) e->next->at = e->at;
	pthread_mutex_unlock(&w->lock);
	int k = atomic_load(&e->chunks);
	for (int i = 0; i < k * CHUNK; i++) {
		rl_slot *s = slot_at(e, i);
		if (atomic_load(&s->state) == FREE || rl_slot_test(e, s)) continue;
		if (!s->sending) MPI_Cancel(&s->req);
		MPI_Request_free(&s->req);
		atomic_fetch_sub(s->sending ? &w->sends : &w->receives, 1);
	}
	for (int i = 0; i < k; i++) free(e->chunk[i]);
	rl_group *g = e->group;
	free(e);
	if (atomic_fetch_sub(&g->ends, 1) == 1) rl_group_close(g);
}

void rl_sleep(int64_t ns) {
	static _Thread_local int exact;
	if (!exact) {
		prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
		exact = 1;
	}
	struct timespec t = {ns / 1000000000, ns % 1000000000};
	nanosleep(&t, NULL);
}
