//go:build mpi

// Requests: posted without blocking, waited for in one place.
//
// A message that is longer than its receive is an error, and must not touch what lies behind the buffer. Open MPI 4.1.4 writes it there all the same, where
// it moves data by RDMA (its own shared memory and TCP included; found by rl_world_open, which tries). With such an MPI a receive is not posted: it stands
// in line, one line per sender and tag, until a matched probe shows its message and how long that is. Everything else is alike.

#include "inner.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

// With so many lines or fewer, each look at an end probes all of them; with more, only those of the requests that are looked at.
enum { FEW = 16 };

rl_end *rl_end_open(rl_world *w, const rl_group *group, int plane) {
	rl_end *e = calloc(1, sizeof *e);
	if (!e) return NULL;
	e->w = w;
	e->comm = group ? group->comm : w->plane[plane];
	pthread_mutex_lock(&w->lock);
	e->next = w->ends;
	e->at = &w->ends;
	if (e->next) e->next->at = &e->next;
	w->ends = e;
	pthread_mutex_unlock(&w->lock);
	return e;
}

static void hold(rl_end *e) {
	for (int idle = 0; !atomic_compare_exchange_weak_explicit(&e->busy, &idle, 1, memory_order_acquire, memory_order_relaxed); idle = 0) sched_yield();
}

static int try_hold(rl_end *e) {
	int idle = 0;
	return atomic_compare_exchange_strong_explicit(&e->busy, &idle, 1, memory_order_acquire, memory_order_relaxed);
}

static void let_go(rl_end *e) { atomic_store_explicit(&e->busy, 0, memory_order_release); }

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

static uint64_t handle_of(const rl_slot *s) { return (uint64_t)(s->generation & 0x7fffffff) << 32 | (s->index + 1); }

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

static void fill(rl_slot *s, int sending, uintptr_t buf, int64_t n, int peer, int tag) {
	s->code = MPI_SUCCESS;
	s->sending = sending;
	s->peer = peer;
	s->tag = tag;
	s->buf = buf;
	s->bytes = n;
	s->got = 0;
	s->scratch = NULL;
}

uint64_t rl_isend(rl_end *e, uintptr_t buf, int64_t n, int to, int tag) {
	rl_world *w = e->w;
	hold(e);
	rl_slot *s = slot_take(e);
	uint64_t handle = RL_BAD;
	if (s) {
		fill(s, 1, buf, n, to, tag);
		int over = 0, rc = MPI_Isend((const void *)buf, (int)n, MPI_BYTE, to, tag, e->comm, &s->req);
		// A small message has left by now, as a rule; asking also pushes a large one on its way.
		if (rc == MPI_SUCCESS) rc = MPI_Test(&s->req, &over, MPI_STATUS_IGNORE);
		if (rc != MPI_SUCCESS || over) {
			handle = rc == MPI_SUCCESS ? 0 : RL_BAD | (uint32_t)rc;
			slot_give(e, s);
		} else {
			s->state = UNDERWAY;
			atomic_fetch_add(&e->sends, 1);
			atomic_fetch_add(&w->sends, 1);
			handle = handle_of(s);
		}
	}
	let_go(e);
	rl_kick(w); // even if it is done for us: the library may hold a copy that has not left
	return handle;
}

// Lines: the receives for one sender and tag that have no message yet, in the order in which they were posted.

static rl_slot *line_of(rl_end *e, const rl_slot *s) {
	rl_slot *h = e->heads;
	while (h && (h->peer != s->peer || h->tag != s->tag)) h = h->right;
	return h;
}

static void head_insert(rl_slot **at, rl_slot *h) {
	h->left = at;
	h->right = *at;
	if (h->right) h->right->left = &h->right;
	*at = h;
}

static void head_remove(rl_slot *h) {
	*h->left = h->right;
	if (h->right) h->right->left = h->left;
}

static void line_join(rl_end *e, rl_slot *s) {
	rl_slot *h = line_of(e, s);
	if (h) {
		h->last->next = s;
		h->last = s;
	} else {
		s->last = s;
		head_insert(&e->heads, s);
		atomic_fetch_add(&e->lines, 1);
	}
	s->state = UNMATCHED;
}

static void line_leave(rl_end *e, rl_slot *s) {
	rl_slot *h = line_of(e, s);
	if (h == s) {
		rl_slot **at = h->left;
		head_remove(h);
		if (h->next) {
			h->next->last = h->last;
			head_insert(at, h->next);
		} else {
			atomic_fetch_sub(&e->lines, 1);
		}
	} else {
		rl_slot *before = h;
		while (before->next != s) before = before->next;
		before->next = s->next;
		if (h->last == s) h->last = before;
	}
	s->next = NULL;
}

// match gives the head of a line its message, if it is there: 1 if so.
static int match(rl_end *e, rl_slot *h) {
	int there = 0, n = 0;
	MPI_Message message;
	MPI_Status st;
	int rc = MPI_Improbe(h->peer, h->tag, e->comm, &there, &message, &st);
	if (rc == MPI_SUCCESS && !there) return 0;
	line_leave(e, h);
	h->state = UNDERWAY;
	if (rc == MPI_SUCCESS) rc = MPI_Get_count(&st, MPI_BYTE, &n);
	void *to = (void *)h->buf;
	if (rc == MPI_SUCCESS && n > h->bytes) to = h->scratch = malloc((size_t)n);
	if (rc == MPI_SUCCESS && n > h->bytes && !to) rc = MPI_ERR_NO_MEM;
	if (rc == MPI_SUCCESS) rc = MPI_Imrecv(to, n, MPI_BYTE, &message, &h->req);
	if (rc != MPI_SUCCESS) {
		h->req = MPI_REQUEST_NULL;
		h->code = rc;
	}
	return 1;
}

// match_line gives a line all messages that are there for it.
static void match_line(rl_end *e, rl_slot *h) {
	for (rl_slot *behind; h; h = behind) {
		behind = h->next;
		if (!match(e, h)) return;
	}
}

static void match_all(rl_end *e) {
	for (rl_slot *h = e->heads, *right; h; h = right) {
		right = h->right;
		match_line(e, h);
	}
}

uint64_t rl_irecv(rl_end *e, uintptr_t buf, int64_t n, int from, int tag) {
	rl_world *w = e->w;
	hold(e);
	rl_slot *s = slot_take(e);
	uint64_t handle = RL_BAD;
	if (s) {
		fill(s, 0, buf, n, from, tag);
		int rc = MPI_SUCCESS;
		if (w->overruns)
			line_join(e, s);
		else if ((rc = MPI_Irecv((void *)buf, (int)n, MPI_BYTE, from, tag, e->comm, &s->req)) == MPI_SUCCESS)
			s->state = UNDERWAY;
		if (rc != MPI_SUCCESS) {
			handle = RL_BAD | (uint32_t)rc;
			slot_give(e, s);
		} else {
			atomic_fetch_add(&w->receives, 1);
			handle = handle_of(s);
		}
	}
	let_go(e);
	rl_kick(w);
	return handle;
}

// ended records how a request ended; st is NULL for one that got no message.
static void ended(rl_end *e, rl_slot *s, int code, MPI_Status *st) {
	int n = 0;
	if (s->code == MPI_SUCCESS) s->code = code;
	if (s->code == MPI_SUCCESS && s->scratch) s->code = MPI_ERR_TRUNCATE;
	if (s->code == MPI_SUCCESS && !s->sending && st) MPI_Get_count(st, MPI_BYTE, &n);
	s->got = n;
	free(s->scratch);
	s->scratch = NULL;
	s->state = DONE;
	if (s->sending) atomic_fetch_sub(&e->sends, 1);
	atomic_fetch_sub(s->sending ? &e->w->sends : &e->w->receives, 1);
}

// test looks once whether a request is done, after begin.
static int test(rl_end *e, rl_slot *s) {
	if (s->state == UNMATCHED && atomic_load(&e->lines) > FEW) match_line(e, line_of(e, s));
	if (s->state == UNDERWAY) {
		int over = 0;
		MPI_Status st;
		int rc = MPI_Test(&s->req, &over, &st);
		if (rc != MPI_SUCCESS || over) ended(e, s, rc, &st);
	}
	return s->state == DONE;
}

static void begin(rl_end *e) {
	if (e->heads && atomic_load(&e->lines) <= FEW) match_all(e);
}

void rl_end_push(rl_end *e) {
	if (!(atomic_load(&e->sends) || atomic_load(&e->lines)) || !try_hold(e)) return;
	for (int i = 0; atomic_load(&e->sends) && i < e->chunks * CHUNK; i++) {
		rl_slot *s = slot_at(e, i);
		if (s->state == UNDERWAY && s->sending) test(e, s);
	}
	match_all(e);
	let_go(e);
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

// look tests one request: 0 done, RL_PENDING, RL_FAULT, RL_UNKNOWN.
static int look(rl_end *e, rl_request *req, rl_fault *fault) {
	rl_slot *s = slot_of(e, req->handle);
	if (!s) return RL_UNKNOWN;
	return test(e, s) ? finish(e, s, req, fault) : RL_PENDING;
}

int rl_test(rl_end *e, rl_request *req, rl_fault *fault) {
	hold(e);
	begin(e);
	int r = look(e, req, fault);
	let_go(e);
	return r;
}

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

static int look_at(rl_end *e, rl_request *reqs, int n, int any, int *first, rl_fault *fault) {
	if (!try_hold(e)) return RL_PENDING; // the progress thread is at it
	begin(e);
	int r = any ? look_any(e, reqs, n, fault) : look_all(e, reqs, n, first, fault);
	let_go(e);
	return r;
}

int rl_wait(rl_end *e, rl_request *reqs, int n, int any, int slices, rl_fault *fault) {
	int first = 0, r = look_at(e, reqs, n, any, &first, fault);
	if (r != RL_PENDING) return r;
	rl_world *w = e->w;
	int64_t before = (int64_t)slices * RL_SLICE_NS, start = rl_now(), waited = before;
	atomic_fetch_add(&w->waiters, 1);
	atomic_store(&e->waited, 1);
	for (int round = 1; r == RL_PENDING && waited < before + RL_SLICE_NS; round++) {
		int paused = rl_pause(waited);
		r = look_at(e, reqs, n, any, &first, fault);
		if (paused || round % 8 == 0) waited = before + rl_now() - start; // while spinning, asking for the time would be most of the work
	}
	// Before going on to wait for the first, see whether one behind it has failed, and match what is in line.
	hold(e);
	match_all(e);
	for (int i = first + 1; r == RL_PENDING && !any && i < n; i++)
		if (reqs[i].handle && (r = look(e, &reqs[i], fault)) == 0) r = RL_PENDING;
	let_go(e);
	atomic_store(&e->waited, 0);
	atomic_fetch_sub(&w->waiters, 1);
	if (r != RL_PENDING && (atomic_load(&w->sends) || atomic_load(&w->receives))) rl_kick(w); // from here on the progress thread moves them
	return r;
}

int rl_cancel(rl_end *e, rl_request *req, rl_fault *fault) {
	hold(e);
	begin(e);
	rl_slot *s = slot_of(e, req->handle);
	int r = !s ? RL_UNKNOWN : RL_PENDING;
	if (s && !s->sending && !test(e, s)) {
		int over = 1, cancelled = 1, rc = MPI_SUCCESS;
		MPI_Status st;
		if (s->state == UNMATCHED) {
			line_leave(e, s);
		} else {
			rc = MPI_Cancel(&s->req);
			if (rc == MPI_SUCCESS) rc = MPI_Test(&s->req, &over, &st);
			if (rc == MPI_SUCCESS && over) MPI_Test_cancelled(&st, &cancelled);
		}
		if (rc != MPI_SUCCESS || over) ended(e, s, rc, cancelled ? NULL : &st);
		if (s->state == DONE && (rc != MPI_SUCCESS || cancelled)) r = finish(e, s, req, fault);
	}
	let_go(e);
	return r;
}

int rl_end_next(rl_end *e, int from, rl_fault *out) {
	int next = -1;
	hold(e);
	for (int i = from; next < 0 && i < e->chunks * CHUNK; i++) {
		rl_slot *s = slot_at(e, i);
		if (s->state == FREE) continue;
		describe(s, out);
		next = i + 1;
	}
	let_go(e);
	return next;
}

int rl_end_request(rl_end *e, uint64_t handle, rl_fault *out) {
	hold(e);
	rl_slot *s = slot_of(e, handle);
	if (s) describe(s, out);
	let_go(e);
	return s ? 0 : RL_UNKNOWN;
}

void rl_end_close(rl_end *e) {
	rl_world *w = e->w;
	pthread_mutex_lock(&w->lock); // from here on the progress thread does not see the end
	*e->at = e->next;
	if (e->next) e->next->at = e->at;
	pthread_mutex_unlock(&w->lock);
	for (int i = 0; i < e->chunks * CHUNK; i++) {
		rl_slot *s = slot_at(e, i);
		if (s->state == FREE || test(e, s)) continue;
		if (s->state == UNDERWAY && !s->sending && !s->scratch) MPI_Cancel(&s->req);
		if (s->state == UNDERWAY) MPI_Request_free(&s->req);
		atomic_fetch_sub(s->sending ? &w->sends : &w->receives, 1);
	}
	for (int i = 0; i < e->chunks; i++) free(e->chunk[i]);
	free(e);
}
