//go:build mpi

// Makes the world, finds its nodes, and starts and stops its progress thread.

#include "inner.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// All processes of this program call MPI_Comm_split with COLOUR. Other programs of the job call it with a colour of
// their own, usually their MPI_APPNUM.
enum { COLOUR = 0x726c6e66 };

// TAGS_WANTED is the number of tags that all planes together should have. A communicator usually uses 4096 tags until
// the world ends. In Open MPI and MPICH one plane has enough tags.
enum { TAGS_WANTED = 1 << 26 };

void *rl_signals_save(void) {
	struct sigaction *old = calloc(NSIG, sizeof *old);
	for (int s = 1; old && s < NSIG; s++) sigaction(s, NULL, &old[s]);
	return old;
}

int rl_signals_restore(void *saved) {
	struct sigaction *old = saved, now;
	int n = 0;
	for (int s = 1; old && s < NSIG; s++)
		if (sigaction(s, NULL, &now) == 0 && (now.sa_handler != old[s].sa_handler || now.sa_flags != old[s].sa_flags))
			n += sigaction(s, &old[s], NULL) == 0;
	free(old);
	return n;
}

static const char *level_text(int level) {
	switch (level) {
	case MPI_THREAD_SINGLE: return "single";
	case MPI_THREAD_FUNNELED: return "funneled";
	case MPI_THREAD_SERIALIZED: return "serialized";
	case MPI_THREAD_MULTIPLE: return "multiple";
	default: return "unknown";
	}
}

// overruns reports whether MPI writes past the end of the receive buffer if a message is too long.
static int overruns(void) {
	enum { LONG = 1 << 16, SHORT = 8 };
	int over = 0;
	char *from = malloc(LONG), *to = calloc(1, LONG);
	if (from && to) {
		MPI_Request reqs[2];
		memset(from, 1, LONG);
		MPI_Irecv(to, SHORT, MPI_BYTE, 0, 0, MPI_COMM_SELF, &reqs[0]);
		MPI_Isend(from, LONG, MPI_BYTE, 0, 0, MPI_COMM_SELF, &reqs[1]);
		MPI_Wait(&reqs[0], MPI_STATUS_IGNORE); // returns an error, as it should
		MPI_Wait(&reqs[1], MPI_STATUS_IGNORE);
		for (int i = SHORT; i < LONG; i++) over |= to[i];
	}
	free(from);
	free(to);
	return over;
}

int rl_world_open(int64_t beat_ns, int64_t stall_ns, rl_world **out, rl_place *place, int **node, rl_fault *fault) {
	TRY(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
	TRY(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
	TRY(MPI_Query_thread(&place->granted));
	place->level = level_text(place->granted);
	int found = 0, *ub = NULL, me;
	TRY(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &ub, &found));
	place->tags = found ? (*ub < INT_MAX ? *ub + 1 : INT_MAX) : 32768; // the standard guarantees 32768 tags
	TRY(MPI_Comm_rank(MPI_COMM_WORLD, &me));

	rl_world *w = calloc(1, sizeof *w);
	if (!w) return fault->call = "calloc", MPI_ERR_NO_MEM;
	w->beat_ns = beat_ns;
	w->stall_ns = stall_ns;
	w->overruns = overruns();
	TRY(MPI_Comm_split(MPI_COMM_WORLD, COLOUR, me, &w->world));
	TRY(MPI_Comm_set_name(w->world, "world"));
	TRY(rl_duplicate(w->world, "world heartbeats", &w->beats));
	for (; w->planes < MAX_PLANES && (int64_t)w->planes * place->tags < TAGS_WANTED; w->planes++)
		TRY(rl_duplicate(w->world, "world messages", &w->plane[w->planes]));
	w->last_group = &w->groups;
	place->planes = w->planes;
	TRY(MPI_Comm_rank(w->world, &w->rank));
	TRY(MPI_Comm_size(w->world, &w->size));

	int lowest = w->rank, before = (w->rank + w->size - 1) % w->size, after = (w->rank + 1) % w->size;
	TRY(MPI_Comm_split_type(w->world, MPI_COMM_TYPE_SHARED, w->rank, MPI_INFO_NULL, &w->node));
	TRY(MPI_Comm_set_name(w->node, "node"));
	TRY(MPI_Bcast(&lowest, 1, MPI_INT, 0, w->node));
	*node = calloc((size_t)w->size, sizeof **node);
	if (!*node) return fault->call = "calloc", MPI_ERR_NO_MEM;
	TRY(MPI_Allgather(&lowest, 1, MPI_INT, *node, 1, MPI_INT, w->world));

	char host[256] = "?", self[sizeof place->before];
	gethostname(host, sizeof host - 1);
	snprintf(w->name, sizeof w->name, "host %s, pid %d", host, (int)getpid());
	snprintf(self, sizeof self, "rank %d (%s)", w->rank, w->name);
	TRY(MPI_Sendrecv(self, sizeof self, MPI_CHAR, after, 0, place->before, sizeof self, MPI_CHAR, before, 0, w->world,
		MPI_STATUS_IGNORE));
	place->rank = w->rank;
	place->size = w->size;

	TRY(rl_peers_open(w));
	if (rl_progress_start(w) != 0) return fault->call = "pthread_create", MPI_ERR_OTHER;
	*out = w;
	return MPI_SUCCESS;
}

void rl_world_oversubscribed(rl_world *w) { w->oversubscribed = 1; }

// drain receives and drops the unreceived messages of a communicator.
static int drain(MPI_Comm comm, rl_fault *fault) {
	for (;;) {
		int found = 0, n = 0;
		MPI_Message message;
		MPI_Status st;
		TRY(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, &message, &st));
		if (!found) return MPI_SUCCESS;
		TRY(MPI_Get_count(&st, MPI_BYTE, &n));
		void *unread = malloc(n > 0 ? (size_t)n : 1);
		if (!unread) return fault->call = "malloc", MPI_ERR_NO_MEM;
		TRY(MPI_Mrecv(unread, n, MPI_BYTE, &message, MPI_STATUS_IGNORE));
		free(unread);
	}
}

int rl_world_barrier(rl_world *w, rl_fault *fault) {
	// Every question must be answered before the progress threads end, and before rl_peers_forget.
	for (int64_t start = rl_now(); atomic_load(&w->asking);) rl_backoff(rl_now() - start);
	MPI_Request req;
	TRY(MPI_Ibarrier(w->world, &req));
	TRY(rl_wait_asleep(&req));
	int rc = MPI_SUCCESS;
	for (int p = 0; p < w->planes && rc == MPI_SUCCESS; p++) rc = drain(w->plane[p], fault);
	for (rl_group *g = w->groups; g && rc == MPI_SUCCESS; g = g->next) rc = drain(g->comm, fault);
	return rc;
}

int rl_world_renew(rl_world *w, int64_t *next, rl_fault *fault) {
	rl_groups_free(w);
	if (w->region) rl_messages_discard(w);
	rl_peers_forget(w);
	MPI_Request req;
	TRY(MPI_Iallreduce(MPI_IN_PLACE, next, 1, MPI_INT64_T, MPI_MAX, w->world, &req));
	TRY(rl_wait_asleep(&req));
	return MPI_SUCCESS;
}

void rl_world_free(rl_world *w) {
	rl_groups_free(w);
	for (int p = 0; p < w->planes; p++) MPI_Comm_free(&w->plane[p]);
	rl_peers_free(w);
	MPI_Comm_free(&w->node);
	MPI_Comm_free(&w->beats);
	MPI_Comm_free(&w->world);
	pthread_mutex_destroy(&w->message_lock);
	pthread_mutex_destroy(&w->lock);
	free(w->region);
	free(w);
}

void rl_error_text(int code, char *text, int size) {
	char full[MPI_MAX_ERROR_STRING];
	int n = 0;
	if (MPI_Error_string(code, full, &n) != MPI_SUCCESS) n = snprintf(full, sizeof full, "MPI error %d", code);
	snprintf(text, (size_t)size, "%.*s", n, full);
}

void rl_library_text(char *text, int size) {
	char full[MPI_MAX_LIBRARY_VERSION_STRING];
	int n = 0;
	MPI_Get_library_version(full, &n);
	snprintf(text, (size_t)size, "%.*s", n, full);
}
