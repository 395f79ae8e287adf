// An MPI_Finalize that does not return, by MPI's profiling interface. HANG_BEFORE and HANG_AFTER are the ranks that hang
// before and after MPI's own: the others then wait in it, or have come out of it.

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void hang(const char *name, int rank) {
	const char *which = getenv(name);
	if (!which || atoi(which) != rank) return;
	printf("rank %d hangs\n", rank);
	fflush(stdout);
	for (;;) pause();
}

int MPI_Finalize(void) {
	int rank, rc;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	hang("HANG_BEFORE", rank);
	rc = PMPI_Finalize();
	hang("HANG_AFTER", rank);
	return rc;
}
