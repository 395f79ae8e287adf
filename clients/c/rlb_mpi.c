/* rlb_mpi.c carries RLB1 in messages of MPI, docs/bridge.md#mpi, and broadcasts the root's requests to the solver's
 * other ranks. */
#define _POSIX_C_SOURCE 200809L
#include "rlb_mpi.h"

#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TAG = 21586 };

/* doze waits between two polls of MPI, longer with the number of polls: not at all, for a turn of the scheduler, then
 * up to a millisecond. */
static void doze(int looks)
{
	struct timespec t = {0, 1000000};
	if (looks < 100)
		return;
	if (looks < 1000) {
		sched_yield();
		return;
	}
	if (looks < 1100)
		t.tv_nsec = 10000 * (looks - 999);
	nanosleep(&t, NULL);
}

static void wait_for(MPI_Request *request)
{
	int done = 0;
	for (int looks = 0; MPI_Test(request, &done, MPI_STATUS_IGNORE), !done; looks += looks < INT_MAX)
		doze(looks);
}

/* ---- The link to rlinf ---- */

typedef struct {
	int peer;  /* rank of MPI_COMM_WORLD to which frames go */
	int known; /* peer is the parent: it has answered the greeting */
} line;

static long line_recv(void *ctx, void *buf, size_t room)
{
	line *l = (line *)ctx;
	MPI_Status status;
	int found = 0, n = 0, from = l->known ? l->peer : MPI_ANY_SOURCE;
	for (int looks = 0; MPI_Iprobe(from, TAG, MPI_COMM_WORLD, &found, &status), !found; looks += looks < INT_MAX)
		doze(looks);
	MPI_Get_count(&status, MPI_BYTE, &n);
	if (n < 1 || (size_t)n > room)
		return rlb_fail("a message of %d bytes from rank %d: expected 1 to %llu", n, status.MPI_SOURCE,
			(unsigned long long)room);
	l->peer = status.MPI_SOURCE;
	l->known = 1;
	MPI_Recv(buf, n, MPI_BYTE, l->peer, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	return n;
}

static int line_send(void *ctx, const void *frame, size_t n)
{
	MPI_Request request;
	if (n > INT_MAX)
		return rlb_fail("a frame of %llu bytes: expected at most %d by MPI", (unsigned long long)n, INT_MAX);
	MPI_Isend(frame, (int)n, MPI_BYTE, ((line *)ctx)->peer, TAG, MPI_COMM_WORLD, &request);
	wait_for(&request);
	return 0;
}

static void line_close(void *ctx) { free(ctx); }

/* open_line opens the conversation with rank R if RLB_ADDR is mpi:R, else with rank 0. */
static rlb *open_line(const rlb_spec *spec, int ranks)
{
	const char *addr = getenv("RLB_ADDR");
	rlb_link link = {line_recv, line_send, line_close, NULL, NULL};
	int world = 0, R = 0;
	MPI_Comm_size(MPI_COMM_WORLD, &world);
	if (ranks == world) {
		rlb_fail("this MPI job has no rlinf in it: expected mpirun -np 1 rlinf -c cfg.yaml : -np %d this program",
			ranks);
		return NULL;
	}
	if (addr != NULL && strncmp(addr, "mpi:", 4) == 0)
		R = atoi(addr + 4);
	if (R < 0 || R >= world) {
		rlb_fail("RLB_ADDR %s: expected a rank below %d", addr, world);
		return NULL;
	}
	line *l = (line *)calloc(1, sizeof *l);
	if (l == NULL) {
		rlb_fail("no memory");
		return NULL;
	}
	l->peer = R;
	link.ctx = l;
	return rlb_open_on(&link, spec);
}

/* ---- The solver's ranks ---- */

/* share broadcasts the root's m->packet to all ranks: a number, followed by an action. */
static void share(rlb_mpi *m)
{
	MPI_Request request;
	MPI_Ibcast(m->packet, m->packet_size, MPI_BYTE, 0, m->comm, &request);
	wait_for(&request);
}

int rlb_mpi_open(const rlb_spec *spec, rlb_mpi *m)
{
	const char *addr = getenv("RLB_ADDR"), *app = getenv("RLB_APP");
	int *application = NULL, found = 0, rank = 0, ranks = 0;
	int64_t failed = 0;
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &application, &found);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_split(MPI_COMM_WORLD, app != NULL ? atoi(app) : found ? *application : 0, rank, &m->comm);
	MPI_Comm_rank(m->comm, &rank);
	MPI_Comm_size(m->comm, &ranks);
	m->root = NULL;
	m->packet_size = (int)(sizeof failed + rlb_space_size(&spec->action));
	m->packet = calloc(1, (size_t)m->packet_size);
	if (m->packet == NULL)
		MPI_Abort(MPI_COMM_WORLD, 1);
	if (rank == 0) {
		m->root = addr == NULL || strncmp(addr, "mpi", 3) == 0 ? open_line(spec, ranks) : rlb_open(spec);
		failed = m->root == NULL ? -1 : 0;
		memcpy(m->packet, &failed, sizeof failed);
	}
	share(m);
	memcpy(&failed, m->packet, sizeof failed);
	return (int)failed;
}

uint64_t rlb_mpi_seed(rlb_mpi *m)
{
	uint64_t seed;
	if (m->root != NULL) {
		seed = rlb_seed(m->root);
		memcpy(m->packet, &seed, sizeof seed);
	}
	share(m);
	memcpy(&seed, m->packet, sizeof seed);
	return seed;
}

int rlb_mpi_recv_action(rlb_mpi *m, void *action)
{
	char *behind = (char *)m->packet + sizeof(int64_t);
	int64_t going;
	if (m->root != NULL) {
		going = rlb_recv_action(m->root, behind);
		memcpy(m->packet, &going, sizeof going);
	}
	share(m);
	memcpy(&going, m->packet, sizeof going);
	if (going == 1)
		memcpy(action, behind, (size_t)m->packet_size - sizeof going);
	return (int)going;
}

void rlb_mpi_send_init(rlb_mpi *m, const void *obs)
{
	if (m->root != NULL)
		rlb_send_init(m->root, obs);
}

void rlb_mpi_send_state(rlb_mpi *m, const void *obs, double reward) { rlb_mpi_send_last(m, obs, reward, 0); }

void rlb_mpi_send_last(rlb_mpi *m, const void *obs, double reward, int how)
{
	if (m->root != NULL)
		rlb_send_last(m->root, obs, reward, how);
}

void rlb_mpi_close(rlb_mpi *m)
{
	rlb_close(m->root);
	free(m->packet);
	MPI_Comm_free(&m->comm);
}
