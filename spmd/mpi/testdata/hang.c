// An MPI_Finalize that does not return; it uses MPI's profiling interface. The rank HANG_BEFORE hangs before the real
// MPI_Finalize, so that the other ranks wait in it. The rank HANG_AFTER hangs after the real MPI_Finalize, from which
// the other ranks have returned too.

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
