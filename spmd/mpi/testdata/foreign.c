// A foreign program in the same job. It takes part only in one split of MPI_COMM_WORLD, with its MPI_APPNUM as the
// colour. The optional argument is the number of seconds that it runs after the split.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv) {
	int *app, found, size;
	MPI_Comm mine;
	MPI_Init(&argc, &argv);
	MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &app, &found);
	MPI_Comm_split(MPI_COMM_WORLD, found ? *app : 0, 0, &mine);
	MPI_Comm_size(mine, &size);
	printf("foreign: a world of %d\n", size);
	MPI_Barrier(mine);
	if (argc > 1) sleep((unsigned)atoi(argv[1]));
	MPI_Comm_free(&mine);
	return MPI_Finalize();
}
