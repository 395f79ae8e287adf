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

enum { URGE_NS = 1000 * 1000 }; // how long a send waits for a receiver of the node before it asks that one's progress thread to look

rl_end *rl_end_open(rl_world *w, const rl_group *group, int plane, uint64_t space, int process, int lane) {
	rl_end *e = calloc(1, sizeof *e);
	if (!e) return NULL;
	e->w = w;
	e->comm = group ? group->comm : w->plane[plane];
	e->space = space;
	e->process = process;
	e->lane = lane;
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
	s->letter = NULL;
}

// moving counts a request of MPI's that is under way.
static void moving(rl_end *e, const rl_slot *s, int n) {
	if (s->sending) atomic_fetch_add(&e->sends, n);
	atomic_fetch_add(s->sending ? &e->w->sends : &e->w->receives, n);
}

static int send_by_mpi(rl_end *e, rl_slot *s) {
	int over = 0, rc = MPI_Isend((const void *)s->buf, (int)s->bytes, MPI_BYTE, s->peer, s->tag, e->comm, &s->req);
	// A small message has left by now, as a rule; asking also pushes a large one on its way.
	if (rc == MPI_SUCCESS) rc = MPI_Test(&s->req, &over, MPI_STATUS_IGNORE);
	s->state = over ? DONE : UNDERWAY;
	return rc;
}

uint64_t rl_isend(rl_end *e, uintptr_t buf, int64_t n, int to, int tag, int near, int lane) {
	hold(e);
	rl_slot *s = slot_take(e);
	uint64_t handle = RL_BAD;
	int kick = 0;
	if (s) {
		fill(s, 1, buf, n, to, tag, near);
		int rc = near < 0 ? send_by_mpi(e, s) : rl_letter_send(e, s, near, lane);
		kick = s->by_mpi; // even if it is done for us: the library may hold a copy that has not left
		if (rc != MPI_SUCCESS || s->state == DONE) {
			handle = rc == MPI_SUCCESS ? 0 : RL_BAD | (uint32_t)rc;
			slot_give(e, s);
		} else {
			if (s->by_mpi) moving(e, s, 1);
			handle = handle_of(s);
		}
	}
	let_go(e);
	if (kick) rl_kick(e->w);
	return handle;
}

// match gives the head of a line its message, if it is there: 1 if so.
static int match(rl_end *e, rl_slot *h) {
	int there = 0, n = 0;
	MPI_Message message;
	MPI_Status st;
	int rc = MPI_Improbe(h->peer, h->tag, e->comm, &there, &message, &st);
	if (rc == MPI_SUCCESS && !there) return 0;
	rl_line_leave(e, h);
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

uint64_t rl_irecv(rl_end *e, uintptr_t buf, int64_t n, int from, int tag, int near) {
	hold(e);
	rl_slot *s = slot_take(e);
	uint64_t handle = RL_BAD;
	if (s) {
		fill(s, 0, buf, n, from, tag, near);
		int rc = MPI_SUCCESS;
		if (near >= 0 || e->w->overruns)
			rl_line_join(e, s);
		else if ((rc = MPI_Irecv((void *)buf, (int)n, MPI_BYTE, from, tag, e->comm, &s->req)) == MPI_SUCCESS)
			s->state = UNDERWAY;
		if (near >= 0) e->fresh = 1;
		if (rc != MPI_SUCCESS) {
			handle = RL_BAD | (uint32_t)rc;
			slot_give(e, s);
		} else {
			if (s->by_mpi) moving(e, s, 1);
			handle = handle_of(s);
		}
	}
	let_go(e);
	if (near < 0) rl_kick(e->w);
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
	if (s->by_mpi) moving(e, s, -1);
}

// read_letters fills the receives whose letters have come.
static void read_letters(rl_end *e) {
	for (rl_slot *s = rl_letters_match(e), *next; s; s = next) {
		next = s->next;
		s->next = NULL;
		s->by_mpi = rl_letter_read(e, s);
		s->state = s->by_mpi ? UNDERWAY : DONE;
		if (s->by_mpi) moving(e, s, 1);
	}
}

// test looks once whether a request is done, after begin.
static int test(rl_end *e, rl_slot *s) {
	if (s->state == UNMATCHED && s->near < 0 && atomic_load(&e->lines) > FEW) match_line(e, rl_line_find(e->heads, s->peer, s->tag));
	if (s->state == UNDERWAY && s->letter) {
		if (rl_letter_left(s)) s->state = DONE;
	} else if (s->state == UNDERWAY) {
		int over = 0;
		MPI_Status st;
		int rc = MPI_Test(&s->req, &over, &st);
		if (rc != MPI_SUCCESS || over) ended(e, s, rc, &st);
	}
	return s->state == DONE;
}

static void begin(rl_end *e) {
	if (e->w->region) read_letters(e);
	e->looked_mpi = 0;
	e->stuck = -1;
	if (e->heads && atomic_load(&e->lines) <= FEW) match_all(e);
}

void rl_end_push(rl_end *e) {
	if (!(atomic_load(&e->sends) || atomic_load(&e->lines) || atomic_load(&e->desks)) || !try_hold(e)) return;
	if (atomic_load(&e->desks)) read_letters(e);
	for (int i = 0; atomic_load(&e->sends) && i < e->chunks * CHUNK; i++) {
		rl_slot *s = slot_at(e, i);
		if (s->state == UNDERWAY && s->sending && s->by_mpi) test(e, s);
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
	if (test(e, s)) return finish(e, s, req, fault);
	if (s->by_mpi) e->looked_mpi = 1;
	if (s->sending && s->near >= 0) e->stuck = s->near;
	return RL_PENDING;
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
	if (!try_hold(e)) { // the progress thread is at it, and nothing is known of this round
		e->looked_mpi = 1;
		e->stuck = -1;
		return RL_PENDING;
	}
	begin(e);
	int r = any ? look_any(e, reqs, n, fault) : look_all(e, reqs, n, first, fault);
	let_go(e);
	return r;
}

// A thread that polls MPI moves all that is under way; others sleep, and leave that to the progress thread.
static void poll_mpi(rl_end *e, int on) {
	atomic_fetch_add(&e->w->waiters, on ? 1 : -1);
	atomic_store(&e->waited, on);
	if (!on && (atomic_load(&e->w->sends) || atomic_load(&e->w->receives))) rl_kick(e->w);
}

int rl_wait(rl_end *e, rl_request *reqs, int n, int any, int64_t *waited_ns, rl_nap *nap, rl_fault *fault) {
	rl_world *w = e->w;
	rl_lane *lane = w->region ? rl_end_lane(e) : NULL;
	rl_post post = {0};
	if (lane) post = (rl_post){&lane->bell, &lane->asleep, atomic_load(&lane->bell), &lane->top};
	int first = 0, r = look_at(e, reqs, n, any, &first, fault);
	while (r == RL_PENDING && lane && !e->looked_mpi && rl_spin(w, &post, waited_ns)) {
		post.old = atomic_load(&lane->bell);
		r = look_at(e, reqs, n, any, &first, fault);
	}
	if (r != RL_PENDING) return r;
	if (lane && !e->looked_mpi && *waited_ns < RL_NAP_NS) {
		*nap = (rl_nap){&lane->bell, &lane->asleep, &lane->top, post.old};
		return RL_NAP;
	}
	int64_t before = *waited_ns, start = rl_now(), waited = before, rested = before, slice = rl_slice(before);
	int polling = 0, urged = 0;
	for (int round = 1; r == RL_PENDING && waited < before + slice; round++) {
		int paused = 1, mpi = e->looked_mpi || !lane, stuck = e->stuck;
		if (mpi != polling) poll_mpi(e, polling = mpi);
		int blind = 0; // it slept to the end, and did not look at MPI
		if (mpi)
			paused = rl_pause(w, waited, lane ? &post : NULL);
		else
			blind = !rl_rest(&post, &rested, stuck >= 0 && !urged ? URGE_NS : slice);
		if (stuck >= 0 && !urged && waited > URGE_NS) rl_urge(w, stuck), urged = 1;
		if (lane) post.old = atomic_load(&lane->bell);
		r = look_at(e, reqs, n, any, &first, fault);
		if (blind && r != RL_PENDING) atomic_fetch_add(&w->missed, 1);
		if (paused || round % 8 == 0) waited = before + rl_now() - start; // while spinning, asking for the time would be most of the work
	}
	if (r == RL_PENDING) { // before going on to wait for the first, see whether one behind it has failed, and match what is in line
		hold(e);
		match_all(e);
		for (int i = first + 1; r == RL_PENDING && !any && i < n; i++)
			if (reqs[i].handle && (r = look(e, &reqs[i], fault)) == 0) r = RL_PENDING;
		let_go(e);
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
	hold(e);
	begin(e);
	rl_slot *s = slot_of(e, req->handle);
	int r = !s ? RL_UNKNOWN : RL_PENDING;
	if (s && !s->sending && !test(e, s)) {
		int over = 1, cancelled = 1, rc = MPI_SUCCESS;
		MPI_Status st;
		if (s->state == UNMATCHED) {
			rl_line_leave(e, s);
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
		if (s->state == UNDERWAY && s->by_mpi && !s->sending && !s->scratch) MPI_Cancel(&s->req);
		if (s->state == UNDERWAY && s->by_mpi) MPI_Request_free(&s->req);
		if (s->by_mpi) moving(e, s, -1);
	}
	rl_letters_leave(e);
	for (int i = 0; i < e->chunks; i++) free(e->chunk[i]);
	free(e);
}
