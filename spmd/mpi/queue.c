//go:build mpi

// Queues of receives. A receive without a message is queued per (sender, tag), in posted order. The first receive of
// each queue is in a list: rl_end.probed if the messages come by MPI, or a bucket of rl_end.bucket if they come through
// shared memory.

#include "inner.h"

#include <stddef.h>

rl_slot *rl_queue_find(rl_slot *first, int peer, int tag) {
	while (first && (first->peer != peer || first->tag != tag)) first = first->next_queue;
	return first;
}

rl_slot **rl_bucket_of(rl_end *e, int peer, int tag) { return &e->bucket[(unsigned)(peer * 31 + tag) % RL_BUCKETS]; }

static rl_slot **list_of(rl_end *e, const rl_slot *s) {
	return s->near >= 0 ? rl_bucket_of(e, s->peer, s->tag) : &e->probed;
}

static _Atomic int *count_of(rl_end *e, const rl_slot *s) {
	return s->near >= 0 ? &e->bucket_queues : &e->probe_queues;
}

static void list_insert(rl_slot **at, rl_slot *first) {
	first->prev_queue = at;
	first->next_queue = *at;
	if (first->next_queue) first->next_queue->prev_queue = &first->next_queue;
	*at = first;
}

static void list_remove(rl_slot *first) {
	*first->prev_queue = first->next_queue;
	if (first->next_queue) first->next_queue->prev_queue = first->prev_queue;
}

void rl_queue_add(rl_end *e, rl_slot *s) {
	rl_slot *first = rl_queue_find(*list_of(e, s), s->peer, s->tag);
	if (first) {
		first->last->next = s;
		first->last = s;
	} else {
		s->last = s;
		list_insert(list_of(e, s), s);
		atomic_fetch_add(count_of(e, s), 1);
	}
	s->state = UNMATCHED;
}

void rl_queue_remove(rl_end *e, rl_slot *s) {
	rl_slot *first = rl_queue_find(*list_of(e, s), s->peer, s->tag);
	if (first == s) {
		rl_slot **at = s->prev_queue;
		list_remove(s);
		if (s->next) {
			s->next->last = s->last;
			list_insert(at, s->next);
		} else {
			atomic_fetch_sub(count_of(e, s), 1);
		}
	} else {
		rl_slot *before = first;
		while (before->next != s) before = before->next;
		before->next = s->next;
		if (first->last == s) first->last = before;
	}
	s->next = NULL;
}
