//go:build mpi

// Detects waits for a rank whose program has ended. If a wait takes long, the waiting rank sends a question to the rank
// that it waits for. The progress threads send the question and the answer.

#include "inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ASK_AGAIN_NS = 1000 * 1000 * 1000 }; // time between the answer "not left" and the next question

enum { UNASKED, WANTED, ASKED, LEFT };

typedef struct {
	int left;
	char name[RL_NAME];
} answer;

// A peer holds what this rank knows about another rank, and this rank's messages to that rank.
struct rl_peer {
	_Atomic int state;
	_Atomic int64_t next_ask; // earliest time of the next question
	char *name;               // host and process of the rank, once it has left
	MPI_Request question, reply;
	answer *replied;
};

int rl_peers_open(rl_world *w) {
	w->peers = calloc((size_t)w->size, sizeof *w->peers);
	for (int r = 0; w->peers && r < w->size; r++) w->peers[r].question = w->peers[r].reply = MPI_REQUEST_NULL;
	return w->peers ? 0 : MPI_ERR_NO_MEM;
}

void rl_peers_free(rl_world *w) {
	for (int r = 0; r < w->size; r++) {
		MPI_Wait(&w->peers[r].question, MPI_STATUS_IGNORE); // the peer has received the question, so this does not wait
		MPI_Wait(&w->peers[r].reply, MPI_STATUS_IGNORE);
		free(w->peers[r].name);
		free(w->peers[r].replied);
	}
	free(w->peers);
}

void rl_leave(rl_world *w, int64_t after_ns) {
	if (after_ns > 0) atomic_store(&w->gone_ns, rl_now() + after_ns);
}

void rl_peers_forget(rl_world *w) {
	atomic_store(&w->gone_ns, 0);
	for (int r = 0; r < w->size; r++) {
		free(w->peers[r].name);
		w->peers[r].name = NULL;
		atomic_store(&w->peers[r].next_ask, 0);
		atomic_store(&w->peers[r].state, UNASKED);
	}
}

const char *rl_departed(rl_world *w, int rank) {
	rl_peer *p = &w->peers[rank];
	int unasked = UNASKED;
	if (atomic_load(&p->state) == LEFT) return p->name;
	if (rank != w->rank && rl_now() >= atomic_load(&p->next_ask) &&
		atomic_compare_exchange_strong(&p->state, &unasked, WANTED)) {
		atomic_fetch_add(&w->asking, 1);
		rl_wake_progress(w);
	}
	return NULL;
}

// Only the progress thread calls the functions that follow.

void rl_peers_ask(rl_world *w) {
	for (int r = 0; r < w->size; r++) {
		rl_peer *p = &w->peers[r];
		if (atomic_load(&p->state) != WANTED) continue;
		MPI_Wait(&p->question, MPI_STATUS_IGNORE); // the last question was answered, so this does not wait
		if (MPI_Isend(NULL, 0, MPI_BYTE, r, QUESTION_TAG, w->beats, &p->question) == MPI_SUCCESS)
			atomic_store(&p->state, ASKED);
	}
}

void rl_peers_reply(rl_world *w, int to) {
	rl_peer *p = &w->peers[to];
	MPI_Recv(NULL, 0, MPI_BYTE, to, QUESTION_TAG, w->beats, MPI_STATUS_IGNORE);
	MPI_Wait(&p->reply, MPI_STATUS_IGNORE); // does not wait: the peer asks again, so it has received the last reply
	if (!p->replied) p->replied = calloc(1, sizeof *p->replied);
	if (!p->replied) return;
	int64_t gone = atomic_load(&w->gone_ns);
	p->replied->left = gone && rl_now() >= gone;
	snprintf(p->replied->name, sizeof p->replied->name, "%s", w->name);
	MPI_Isend(p->replied, sizeof *p->replied, MPI_BYTE, to, ANSWER_TAG, w->beats, &p->reply);
}

void rl_peers_answer(rl_world *w, int from) {
	rl_peer *p = &w->peers[from];
	answer a;
	MPI_Recv(&a, sizeof a, MPI_BYTE, from, ANSWER_TAG, w->beats, MPI_STATUS_IGNORE);
	if (a.left) p->name = strdup(a.name);
	atomic_store(&p->next_ask, rl_now() + ASK_AGAIN_NS);
	atomic_store(&p->state, a.left && p->name ? LEFT : UNASKED);
	atomic_fetch_sub(&w->asking, 1);
}
