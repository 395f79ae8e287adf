//go:build mpi

// Lines: the receives for one sender and tag that have no message yet, in the order in which they were posted.

#include "inner.h"

#include <stddef.h>

rl_slot *rl_line_find(rl_slot *heads, int peer, int tag) {
	while (heads && (heads->peer != peer || heads->tag != tag)) heads = heads->right;
	return heads;
}

rl_slot **rl_desk_of(rl_end *e, int peer, int tag) { return &e->desk[(unsigned)(peer * 31 + tag) % RL_DESKS]; }

static rl_slot **heads_of(rl_end *e, const rl_slot *s) { return s->near >= 0 ? rl_desk_of(e, s->peer, s->tag) : &e->heads; }

static _Atomic int *count_of(rl_end *e, const rl_slot *s) { return s->near >= 0 ? &e->desks : &e->lines; }

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

void rl_line_join(rl_end *e, rl_slot *s) {
	rl_slot *h = rl_line_find(*heads_of(e, s), s->peer, s->tag);
	if (h) {
		h->last->next = s;
		h->last = s;
	} else {
		s->last = s;
		head_insert(heads_of(e, s), s);
		atomic_fetch_add(count_of(e, s), 1);
	}
	s->state = UNMATCHED;
}

void rl_line_leave(rl_end *e, rl_slot *s) {
	rl_slot *h = rl_line_find(*heads_of(e, s), s->peer, s->tag);
	if (h == s) {
		rl_slot **at = h->left;
		head_remove(h);
		if (h->next) {
			h->next->last = h->last;
			head_insert(at, h->next);
		} else {
			atomic_fetch_sub(count_of(e, s), 1);
		}
	} else {
		rl_slot *before = h;
		while (before->next != s) before = before->next;
		before->next = s->next;
		if (h->last == s) h->last = before;
	}
	s->next = NULL;
}
