// For LD_PRELOAD: an MPI that grants a lower thread level than the program requested.
#include <mpi.h>

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
	int rc = PMPI_Init_thread(argc, argv, required, provided);
	*provided = MPI_THREAD_SERIALIZED;
	return rc;
}
