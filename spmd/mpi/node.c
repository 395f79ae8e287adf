//go:build mpi

// Carries messages between ranks of a node, through shared memory.
//
// A message is stored in the memory of its sender. The sender pushes the message on an inbox of the receiver. An inbox
// is a stack: the receiver takes the whole stack and reverses it, so the messages of a sender keep their order. The
// receiver keeps a list of unexpected messages, which match no posted receive, for each inbox.
//
// The data of a short message follows its header. The header of a long message holds a reference to the data, and the
// receiver copies the data. If the receiver cannot map the data, or if too many messages are under way, MPI carries the
// data, and the header has the kind BY_MPI. Receives match only headers, so the order stays the same.

#include "inner.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

// The kinds of messages. The data follows the header, is elsewhere in shared memory, or is sent by MPI.
enum { EAGER, RENDEZVOUS, BY_MPI };

_Static_assert(sizeof(rl_message) == 64, "messages begin on cache lines");

static const int64_t room[MESSAGE_SIZES] = {64, 1 << 10, 4 << 10, 16 << 10};

enum { EAGER_MAX = 4 << 10 }; // longer data follows the header only if the receiver cannot map the sender's buffer
enum { MANY = 64, SOME = 8 };

// The start of every rank's shared memory.
typedef struct {
	char cookie[64];
	rl_wake_word wake;
	rl_inbox inbox[RL_INBOXES];
} segment;

int64_t rl_segment_bytes(void) { return sizeof(segment); }

static segment *segment_of(const rl_world *w, int rank) { return (segment *)w->region[rank]; }

// ref returns a reference to p: a rank and an offset in the rank's shared memory. Every rank of the node can convert a
// reference to an address.
static uint64_t ref(const rl_world *w, const void *p) {
	return (uint64_t)(w->rank + 1) << 40 | (uint64_t)((const char *)p - w->region[w->rank]);
}

static void *deref(const rl_world *w, uint64_t r) { return w->region[(r >> 40) - 1] + (r & ((1ull << 40) - 1)); }

int rl_world_share(rl_world *w, const uintptr_t *regions, int64_t own_bytes, uintptr_t message_mem,
	int64_t message_bytes) {
	w->region = calloc((size_t)w->size, sizeof *w->region);
	if (!w->region) return MPI_ERR_NO_MEM;
	for (int r = 0; r < w->size; r++) w->region[r] = (char *)regions[r];
	w->own_bytes = own_bytes;
	w->message_mem = (char *)message_mem;
	w->message_mem_end = w->message_mem + message_bytes;
	rl_wake_word *before = atomic_exchange(&w->wake, &segment_of(w, w->rank)->wake);
	rl_wake(&before->posts, &before->sleepers); // the progress thread may still sleep on the old word
	return MPI_SUCCESS;
}

rl_inbox *rl_end_inbox(const rl_end *e) { return &segment_of(e->w, e->w->rank)->inbox[e->inbox]; }

// message_new returns a new message, or a message that a closed end has released.
static rl_message *message_new(rl_world *w, int size) {
	rl_message *m = NULL;
	pthread_mutex_lock(&w->message_lock);
	rl_message **at = &w->spare[size];
	for (int i = 0; i < SOME && *at && !m; i++) {
		if (atomic_load(&(*at)->state) == MESSAGE_FREE) {
			m = *at;
			*at = m->ring;
		} else {
			at = &(*at)->ring;
		}
	}
	int64_t bytes = (int64_t)sizeof *m + room[size];
	if (!m && w->message_mem_end - w->message_mem >= bytes) {
		m = (rl_message *)w->message_mem;
		w->message_mem += bytes;
	}
	pthread_mutex_unlock(&w->message_lock);
	return m;
}

// message_take returns a free message of a size class. It returns NULL if there is no memory, or if this end has too
// many messages of the class.
static rl_message *message_take(rl_end *e, int size) {
	rl_message **last = &e->message[size], *m;
	int n = e->messages[size], tries = n < MANY ? (n < SOME ? n : SOME) : n;
	for (int i = 0; i < tries; i++) { // the oldest first
		*last = (*last)->ring;
		if (atomic_load(&(*last)->state) == MESSAGE_FREE) return *last;
	}
	if (size > 0 && n >= MANY) return NULL;
	if (!(m = message_new(e->w, size))) return NULL;
	if (*last) {
		m->ring = (*last)->ring;
		(*last)->ring = m;
	} else {
		m->ring = m;
	}
	*last = m;
	e->messages[size]++;
	return m;
}

void rl_messages_release(rl_end *e) {
	rl_world *w = e->w;
	pthread_mutex_lock(&w->message_lock);
	for (int size = 0; size < MESSAGE_SIZES; size++) {
		rl_message *last = e->message[size];
		if (!last) continue;
		rl_message *first = last->ring;
		last->ring = w->spare[size];
		w->spare[size] = first;
	}
	pthread_mutex_unlock(&w->message_lock);
}

int rl_message_send(rl_end *e, rl_slot *s, int rank, int inbox) {
	rl_world *w = e->w;
	uintptr_t base = (uintptr_t)w->region[w->rank];
	int in_reach = s->buf >= base && s->buf - base < (uintptr_t)w->own_bytes;
	int kind = EAGER, size = 0;
	while (size < MESSAGE_SIZES && room[size] < s->bytes) size++;
	rl_message *m = size == MESSAGE_SIZES || (in_reach && s->bytes > EAGER_MAX) ? NULL : message_take(e, size);
	if (!m) {
		kind = in_reach ? RENDEZVOUS : BY_MPI;
		if (!(m = message_take(e, 0))) return MPI_ERR_NO_MEM;
	}
	*m = (rl_message){.space = e->space, .bytes = s->bytes, .peer = e->process, .tag = s->tag, .rank = w->rank,
		.inbox = (uint16_t)e->inbox, .kind = (uint16_t)kind, .ring = m->ring, .state = MESSAGE_SENT};
	const void *buf = (const void *)s->buf;
	int rc = MPI_SUCCESS;
	if (kind == EAGER && s->bytes > 0)
		memcpy(m->data, buf, (size_t)s->bytes);
	else if (kind == RENDEZVOUS)
		m->at = ref(w, buf);
	else if (kind == BY_MPI)
		rc = MPI_Isend(buf, (int)s->bytes, MPI_BYTE, s->peer, s->tag, e->comm, &s->req);
	if (rc != MPI_SUCCESS) {
		atomic_store(&m->state, MESSAGE_FREE);
		return rc;
	}
	s->message = kind == RENDEZVOUS ? m : NULL;
	s->state = kind == EAGER ? DONE : UNDERWAY;
	s->by_mpi = kind == BY_MPI;
	rl_inbox *to = &segment_of(w, rank)->inbox[inbox];
	m->next = atomic_load(&to->top);
	while (!atomic_compare_exchange_weak(&to->top, &m->next, ref(w, m))) {}
	if (atomic_load(&to->sleepers)) rl_wake(&to->word, &to->sleepers);
	return rc;
}

int rl_message_copied(rl_slot *s) {
	if (atomic_load(&s->message->state) != MESSAGE_COPIED) return 0;
	atomic_store(&s->message->state, MESSAGE_FREE);
	s->message = NULL;
	return 1;
}

static void unexpected_lock(rl_unexpected *u) {
	for (int idle = 0; !atomic_compare_exchange_weak(&u->busy, &idle, 1); idle = 0) sched_yield();
}

// take_inbox moves the messages of an inbox to the end of its unexpected messages, the oldest first. It returns 1 if
// there were messages. A thread that sees the inbox empty also sees the new generation.
static int take_inbox(rl_world *w, rl_inbox *inbox, rl_unexpected *u) {
	if (!atomic_load(&inbox->top)) return 0;
	atomic_fetch_add(&u->generation, 1);
	rl_message *oldest = NULL, *newest = NULL;
	for (uint64_t r = atomic_exchange(&inbox->top, 0), next; r; r = next) {
		rl_message *m = deref(w, r);
		next = m->next; // read m->next before m->later overwrites it
		if (!newest) newest = m;
		m->later = oldest;
		oldest = m;
	}
	if (u->last)
		u->last->later = oldest;
	else
		u->first = oldest;
	u->last = newest;
	return 1;
}

void rl_messages_discard(rl_world *w) {
	for (int i = 0; i < RL_INBOXES; i++) {
		rl_unexpected *u = &w->unexpected[i];
		unexpected_lock(u);
		take_inbox(w, &segment_of(w, w->rank)->inbox[i], u);
		for (rl_message *m = u->first, *later; m; m = later) {
			later = m->later;
			atomic_store(&m->state, MESSAGE_FREE);
		}
		u->first = u->last = NULL;
		atomic_store(&u->busy, 0);
	}
}

rl_slot *rl_inbox_match(rl_end *e) {
	rl_inbox *inbox = rl_end_inbox(e);
	rl_unexpected *u = &e->w->unexpected[e->inbox];
	if (!atomic_load(&inbox->top) && atomic_load(&u->generation) == e->seen && !e->fresh) return NULL;
	rl_slot *matched = NULL, **end = &matched;
	unexpected_lock(u);
	int came = take_inbox(e->w, inbox, u);
	e->seen = atomic_load(&u->generation);
	e->fresh = 0;
	rl_message *before = NULL, *later;
	int others = 0; // 1 if there are messages for other ends, whose threads now find the inbox empty
	for (rl_message *m = u->first; m; m = later) {
		later = m->later;
		rl_slot *s = NULL;
		if (m->space == e->space)
			s = rl_queue_find(*rl_bucket_of(e, m->peer, m->tag), m->peer, m->tag);
		else
			others = 1;
		if (!s) {
			before = m;
			continue;
		}
		if (before)
			before->later = later;
		else
			u->first = later;
		if (u->last == m) u->last = before;
		rl_queue_remove(e, s);
		s->message = m;
		*end = s;
		end = &s->next;
	}
	atomic_store(&u->busy, 0);
	if (came && others) rl_wake(&inbox->word, &inbox->sleepers);
	return matched;
}

int rl_message_read(rl_end *e, rl_slot *s) {
	rl_message *m = s->message;
	int64_t n = m->bytes;
	s->message = NULL;
	s->got = n;
	if (n > s->bytes) s->code = MPI_ERR_TRUNCATE;
	void *to = (void *)s->buf;
	if (m->kind == BY_MPI) {
		if (n > s->bytes) to = s->scratch = malloc((size_t)n);
		int rc = to ? MPI_Irecv(to, (int)n, MPI_BYTE, m->peer, m->tag, e->comm, &s->req) : MPI_ERR_NO_MEM;
		atomic_store(&m->state, MESSAGE_FREE);
		if (rc == MPI_SUCCESS) return 1;
		s->code = rc;
		return 0;
	}
	const void *from = m->kind == RENDEZVOUS ? deref(e->w, m->at) : m->data;
	if (n <= s->bytes && n > 0) memcpy(to, from, (size_t)n);
	if (m->kind == RENDEZVOUS) {
		rl_inbox *back = &segment_of(e->w, m->rank)->inbox[m->inbox];
		atomic_store(&m->state, MESSAGE_COPIED);
		rl_wake(&back->word, &back->sleepers);
	} else {
		atomic_store(&m->state, MESSAGE_FREE);
	}
	return 0;
}

void rl_wake_peer(rl_world *w, int rank) {
	rl_wake_word *peer = &segment_of(w, rank)->wake;
	atomic_store(&peer->match_wanted, 1);
	rl_wake(&peer->posts, &peer->sleepers);
}
