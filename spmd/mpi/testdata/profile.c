// A profiler that uses MPI's profiling interface. At the end it prints the name of each communicator, and the number
// of one-byte messages that the process sent in it.

#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 32 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char names[MOST][MPI_MAX_OBJECT_NAME];
static int sent[MOST], known;

int MPI_Isend(const void *buf, int n, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *req) {
	char name[MPI_MAX_OBJECT_NAME];
	int length, i = 0;
	MPI_Comm_get_name(comm, name, &length);
	pthread_mutex_lock(&lock);
	while (i < known && strcmp(names[i], name)) i++;
	if (i == known && known < MOST) strcpy(names[known++], name);
	if (i < MOST) sent[i] += n == 1 && type == MPI_BYTE;
	pthread_mutex_unlock(&lock);
	return PMPI_Isend(buf, n, type, to, tag, comm, req);
}

int MPI_Finalize(void) {
	int rank;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	for (int i = 0; i < known; i++)
		if (sent[i]) printf("profile of rank %d: %d in %s\n", rank, sent[i], names[i]);
	fflush(stdout);
	return PMPI_Finalize();
}
