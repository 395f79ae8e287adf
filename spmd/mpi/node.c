//go:build mpi

// Messages between ranks of a node, through the memory that they share.
//
// A message is a letter in its sender's memory. The sender pushes it on a lane of the receiver, a stack that a receiver takes whole and turns round: so the
// letters of a sender keep their order. Letters that nobody has asked for yet wait in the lane's tray, in the receiver's own memory. A short message lies in
// its letter. The letter of a longer one says where it lies, and the receiver copies it from there. If that is out of its reach, or too many letters are
// under way, MPI carries the message, and the letter says so: receivers match letters alone, so the order stays.

#include "inner.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { EAGER, DIRECT, BY_MPI }; // kinds of letters
enum { TAKEN = 2 };             // a state: DIRECT, and copied

_Static_assert(sizeof(rl_letter) == 64, "letters begin on cache lines");

static const int64_t room[LETTER_SIZES] = {64, 1 << 10, 4 << 10, 16 << 10};

enum { NEAR_MAX = 4 << 10 }; // what is in reach and longer is not copied into the letter
enum { MANY = 64, SOME = 8 };

// The start of every rank's shared memory.
struct rl_mail {
	char cookie[64];
	rl_door door;
	rl_lane lane[RL_LANES];
};

int64_t rl_mail_bytes(void) { return sizeof(rl_mail); }

static uint64_t ref(const rl_world *w, const void *p) { return (uint64_t)(w->rank + 1) << 40 | (uint64_t)((const char *)p - w->region[w->rank]); }

static void *deref(const rl_world *w, uint64_t r) { return w->region[(r >> 40) - 1] + (r & ((1ull << 40) - 1)); }

static rl_lane *lane_of(const rl_world *w, int rank, int lane) { return &((rl_mail *)w->region[rank])->lane[lane]; }

int rl_world_share(rl_world *w, const uintptr_t *regions, int64_t own_bytes, uintptr_t letters, int64_t letters_bytes) {
	w->region = calloc((size_t)w->size, sizeof *w->region);
	if (!w->region) return MPI_ERR_NO_MEM;
	for (int r = 0; r < w->size; r++) w->region[r] = (char *)regions[r];
	w->own_bytes = own_bytes;
	w->letters = (char *)letters;
	w->letters_end = w->letters + letters_bytes;
	rl_door *private = atomic_exchange(&w->door, &((rl_mail *)w->region[w->rank])->door);
	rl_ring(&private->posts, &private->asleep);
	return MPI_SUCCESS;
}

rl_lane *rl_end_lane(const rl_end *e) { return lane_of(e->w, e->w->rank, e->lane); }

// letter_new returns one that has never been used, or that a closed end has left behind.
static rl_letter *letter_new(rl_world *w, int size) {
	rl_letter *l = NULL;
	pthread_mutex_lock(&w->mail);
	rl_letter **at = &w->spare[size];
	for (int i = 0; i < SOME && *at && !l; i++) {
		if (atomic_load(&(*at)->state) == LETTER_FREE) {
			l = *at;
			*at = l->ring;
		} else {
			at = &(*at)->ring;
		}
	}
	int64_t bytes = (int64_t)sizeof *l + room[size];
	if (!l && w->letters_end - w->letters >= bytes) {
		l = (rl_letter *)w->letters;
		w->letters += bytes;
	}
	pthread_mutex_unlock(&w->mail);
	return l;
}

// letter_take returns a free letter of a size, NULL if there is none, or none of this size for this end.
static rl_letter *letter_take(rl_end *e, int size) {
	rl_letter **last = &e->letter[size], *l;
	int n = e->letters[size], look = n < MANY ? (n < SOME ? n : SOME) : n;
	for (int i = 0; i < look; i++) { // the oldest first
		*last = (*last)->ring;
		if (atomic_load(&(*last)->state) == LETTER_FREE) return *last;
	}
	if (size > 0 && n >= MANY) return NULL;
	if (!(l = letter_new(e->w, size))) return NULL;
	if (*last) {
		l->ring = (*last)->ring;
		(*last)->ring = l;
	} else {
		l->ring = l;
	}
	*last = l;
	e->letters[size]++;
	return l;
}

void rl_letters_leave(rl_end *e) {
	rl_world *w = e->w;
	pthread_mutex_lock(&w->mail);
	for (int size = 0; size < LETTER_SIZES; size++) {
		rl_letter *last = e->letter[size];
		if (!last) continue;
		rl_letter *first = last->ring;
		last->ring = w->spare[size];
		w->spare[size] = first;
	}
	pthread_mutex_unlock(&w->mail);
}

int rl_letter_send(rl_end *e, rl_slot *s, int rank, int lane) {
	rl_world *w = e->w;
	uintptr_t base = (uintptr_t)w->region[w->rank];
	int near = s->buf >= base && s->buf - base < (uintptr_t)w->own_bytes;
	int kind = EAGER, size = 0;
	while (size < LETTER_SIZES && room[size] < s->bytes) size++;
	rl_letter *l = size == LETTER_SIZES || (near && s->bytes > NEAR_MAX) ? NULL : letter_take(e, size);
	if (!l) {
		kind = near ? DIRECT : BY_MPI;
		if (!(l = letter_take(e, 0))) return MPI_ERR_NO_MEM;
	}
	*l = (rl_letter){.space = e->space, .bytes = s->bytes, .peer = e->process, .tag = s->tag, .rank = w->rank, .lane = (uint16_t)e->lane,
		.kind = (uint16_t)kind, .ring = l->ring, .state = LETTER_SENT};
	if (kind == EAGER && s->bytes > 0)
		memcpy(l->data, (const void *)s->buf, (size_t)s->bytes);
	else if (kind == DIRECT)
		l->at = ref(w, (const void *)s->buf);
	s->letter = kind == DIRECT ? l : NULL;
	int rc = MPI_SUCCESS;
	if (kind == BY_MPI && (rc = MPI_Isend((const void *)s->buf, (int)s->bytes, MPI_BYTE, s->peer, s->tag, e->comm, &s->req)) != MPI_SUCCESS) {
		atomic_store(&l->state, LETTER_FREE);
		return rc;
	}
	s->state = kind == EAGER ? DONE : UNDERWAY;
	s->by_mpi = kind == BY_MPI;
	rl_lane *to = lane_of(w, rank, lane);
	l->next = atomic_load(&to->top);
	while (!atomic_compare_exchange_weak(&to->top, &l->next, ref(w, l))) {}
	if (atomic_load(&to->asleep)) rl_ring(&to->bell, &to->asleep);
	return rc;
}

int rl_letter_left(rl_slot *s) {
	if (atomic_load(&s->letter->state) != TAKEN) return 0;
	atomic_store(&s->letter->state, LETTER_FREE);
	s->letter = NULL;
	return 1;
}

static void tray_hold(rl_tray *t) {
	for (int idle = 0; !atomic_compare_exchange_weak(&t->busy, &idle, 1); idle = 0) sched_yield();
}

// empty moves what lies on a lane to its tray, the oldest first. Whoever sees the lane empty sees the tray's new generation.
static int empty(rl_world *w, rl_lane *lane, rl_tray *t) {
	if (!atomic_load(&lane->top)) return 0;
	atomic_fetch_add(&t->generation, 1);
	rl_letter *turned = NULL, *newest = NULL;
	for (uint64_t r = atomic_exchange(&lane->top, 0), next; r; r = next) {
		rl_letter *l = deref(w, r);
		next = l->next; // before behind takes its place
		if (!newest) newest = l;
		l->behind = turned;
		turned = l;
	}
	if (t->last)
		t->last->behind = turned;
	else
		t->first = turned;
	t->last = newest;
	return 1;
}

rl_slot *rl_letters_match(rl_end *e) {
	rl_lane *lane = rl_end_lane(e);
	rl_tray *t = &e->w->tray[e->lane];
	if (!atomic_load(&lane->top) && atomic_load(&t->generation) == e->seen && !e->fresh) return NULL;
	rl_slot *matched = NULL, **end = &matched;
	tray_hold(t);
	int came = empty(e->w, lane, t);
	e->seen = atomic_load(&t->generation);
	e->fresh = 0;
	rl_letter *before = NULL, *next;
	int others = 0; // letters for other ends, whose threads see that the lane is empty
	for (rl_letter *l = t->first; l; l = next) {
		next = l->behind;
		others |= l->space != e->space;
		rl_slot *s = l->space == e->space ? rl_line_find(*rl_desk_of(e, l->peer, l->tag), l->peer, l->tag) : NULL;
		if (!s) {
			before = l;
			continue;
		}
		if (before)
			before->behind = next;
		else
			t->first = next;
		if (t->last == l) t->last = before;
		rl_line_leave(e, s);
		s->letter = l;
		*end = s;
		end = &s->next;
	}
	atomic_store(&t->busy, 0);
	if (came && others) rl_ring(&lane->bell, &lane->asleep);
	return matched;
}

int rl_letter_read(rl_end *e, rl_slot *s) {
	rl_letter *l = s->letter;
	int64_t n = l->bytes;
	s->letter = NULL;
	s->got = n;
	if (n > s->bytes) s->code = MPI_ERR_TRUNCATE;
	void *to = (void *)s->buf;
	if (l->kind == BY_MPI) {
		if (n > s->bytes) to = s->scratch = malloc((size_t)n);
		int rc = to ? MPI_Irecv(to, (int)n, MPI_BYTE, l->peer, l->tag, e->comm, &s->req) : MPI_ERR_NO_MEM;
		atomic_store(&l->state, LETTER_FREE);
		if (rc == MPI_SUCCESS) return 1;
		s->code = rc;
		return 0;
	}
	const void *from = l->kind == DIRECT ? deref(e->w, l->at) : l->data;
	if (n <= s->bytes && n > 0) memcpy(to, from, (size_t)n);
	if (l->kind == DIRECT) {
		rl_lane *back = lane_of(e->w, l->rank, l->lane);
		atomic_store(&l->state, TAKEN);
		rl_ring(&back->bell, &back->asleep);
	} else {
		atomic_store(&l->state, LETTER_FREE);
	}
	return 0;
}

void rl_urge(rl_world *w, int rank) {
	rl_door *d = &((rl_mail *)w->region[rank])->door;
	atomic_store(&d->urged, 1);
	rl_ring(&d->posts, &d->asleep);
}
