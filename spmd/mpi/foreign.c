//go:build mpi

// Exchanges messages with foreign programs in the same job. The messages are bytes on MPI_COMM_WORLD, with one tag.

#include "inner.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { FOREIGN_TAG = 21586 };

int rl_foreign_count(rl_world *w) {
	int all = 0;
	MPI_Comm_size(MPI_COMM_WORLD, &all);
	return all - w->size;
}

int rl_foreign_send(uintptr_t head, int64_t nh, uintptr_t payload, int64_t np, int to, int deliver, int64_t for_ns,
	rl_fault *fault) {
	if (nh + np > INT_MAX) return fault->call = "MPI_Isend", MPI_ERR_COUNT;
	char *whole = malloc((size_t)(nh + np)); // not freed after a timeout, because MPI may still read it
	if (!whole) return fault->call = "malloc", MPI_ERR_NO_MEM;
	memcpy(whole, (const void *)head, (size_t)nh);
	if (np > 0) memcpy(whole + nh, (const void *)payload, (size_t)np);
	MPI_Request req;
	if (deliver)
		TRY(MPI_Issend(whole, (int)(nh + np), MPI_BYTE, to, FOREIGN_TAG, MPI_COMM_WORLD, &req));
	else
		TRY(MPI_Isend(whole, (int)(nh + np), MPI_BYTE, to, FOREIGN_TAG, MPI_COMM_WORLD, &req));
	for (int64_t start = rl_now(), waited = 0;; rl_pause(NULL, waited = rl_now() - start, NULL)) {
		int done = 0;
		TRY(MPI_Test(&req, &done, MPI_STATUS_IGNORE));
		if (done) break;
		if (waited > for_ns) return RL_PENDING;
	}
	free(whole);
	return MPI_SUCCESS;
}

int rl_foreign_match(int from, int64_t for_ns, int *sender, int64_t *n, void **message, rl_fault *fault) {
	MPI_Message m;
	MPI_Status st;
	for (int64_t start = rl_now(), waited = 0;; rl_pause(NULL, waited = rl_now() - start, NULL)) {
		int found = 0, bytes = 0;
		TRY(MPI_Improbe(from < 0 ? MPI_ANY_SOURCE : from, FOREIGN_TAG, MPI_COMM_WORLD, &found, &m, &st));
		if (found) {
			TRY(MPI_Get_count(&st, MPI_BYTE, &bytes));
			*sender = st.MPI_SOURCE;
			*n = bytes;
			break;
		}
		if (waited > for_ns) return RL_PENDING;
	}
	if (!(*message = malloc(sizeof m))) return fault->call = "malloc", MPI_ERR_NO_MEM;
	memcpy(*message, &m, sizeof m);
	return MPI_SUCCESS;
}

int rl_foreign_take(void *message, uintptr_t buf, int64_t n, rl_fault *fault) {
	MPI_Message m;
	memcpy(&m, message, sizeof m);
	free(message);
	TRY(MPI_Mrecv((void *)buf, (int)n, MPI_BYTE, &m, MPI_STATUS_IGNORE));
	return MPI_SUCCESS;
}
