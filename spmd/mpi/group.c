//go:build mpi

// Makes MPI communicators for some of the world's ranks, with names that debuggers and profilers show.

#include "inner.h"

#include <stdlib.h>
#include <stdio.h>

// prepare names a new communicator and makes MPI return errors instead of aborting.
static int prepare(MPI_Comm comm, const char *name) {
	char fits[MPI_MAX_OBJECT_NAME];
	snprintf(fits, sizeof fits, "%s", name);
	int rc = MPI_Comm_set_name(comm, fits);
	return rc != MPI_SUCCESS ? rc : MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
}

int rl_duplicate(MPI_Comm of, const char *name, MPI_Comm *out) {
	MPI_Request req;
	int rc = MPI_Comm_idup(of, out, &req);
	if (rc == MPI_SUCCESS) rc = rl_wait_asleep(&req);
	return rc == MPI_SUCCESS ? prepare(*out, name) : rc;
}

int rl_comm_create(rl_world *w, const int *ranks, int n, int tag, const char *name, MPI_Comm *out, rl_fault *fault) {
	MPI_Group everyone, members;
	TRY(MPI_Comm_group(w->world, &everyone));
	TRY(MPI_Group_incl(everyone, n, ranks, &members));
	TRY(MPI_Comm_create_group(w->world, members, tag, out));
	TRY(MPI_Group_free(&members));
	TRY(MPI_Group_free(&everyone));
	TRY(prepare(*out, name));
	return MPI_SUCCESS;
}

int rl_group_open(rl_world *w, const int *ranks, int n, int tag, const char *name, const rl_group *same,
	rl_group **out, rl_fault *fault) {
	rl_group *g = calloc(1, sizeof *g);
	if (!g) return fault->call = "calloc", MPI_ERR_NO_MEM;
	if (same) {
		TRY(rl_duplicate(same->comm, name, &g->comm));
	} else {
		int rc = rl_comm_create(w, ranks, n, tag, name, &g->comm, fault);
		if (rc != MPI_SUCCESS) return rc;
	}
	*w->last_group = g;
	w->last_group = &g->next;
	*out = g;
	return MPI_SUCCESS;
}

int rl_group_list(rl_world *w, const rl_group *g, char name[RL_NAME], int *ranks, int *n, rl_fault *fault) {
	MPI_Comm comm = g ? g->comm : w->world;
	MPI_Group everyone, members;
	char full[MPI_MAX_OBJECT_NAME];
	int length = 0;
	TRY(MPI_Comm_get_name(comm, full, &length));
	snprintf(name, RL_NAME, "%s", full);
	TRY(MPI_Comm_group(w->world, &everyone));
	TRY(MPI_Comm_group(comm, &members));
	TRY(MPI_Group_size(members, n));
	int *own = malloc((size_t)*n * sizeof *own);
	if (!own) return fault->call = "malloc", MPI_ERR_NO_MEM;
	for (int i = 0; i < *n; i++) own[i] = i;
	TRY(MPI_Group_translate_ranks(members, *n, own, everyone, ranks));
	free(own);
	TRY(MPI_Group_free(&members));
	TRY(MPI_Group_free(&everyone));
	return MPI_SUCCESS;
}

// Freeing a communicator is collective, so all processes free their groups in the order in which they made them.
void rl_groups_free(rl_world *w) {
	for (rl_group *g = w->groups, *next; g; g = next) {
		next = g->next;
		MPI_Comm_free(&g->comm);
		free(g);
	}
	w->groups = NULL;
	w->last_group = &w->groups;
}
