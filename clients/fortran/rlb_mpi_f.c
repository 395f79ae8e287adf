/* The part of rlb_mpi.f90 that is in C: Fortran's communicators are numbers, and the struct of rlb_mpi.h is not. */
#include "rlb_mpi.h"

#include <stdlib.h>

rlb_mpi *rlb_mpi_open_f(const rlb_spec *spec, MPI_Fint *comm)
{
	rlb_mpi *m = (rlb_mpi *)calloc(1, sizeof *m);
	if (m == NULL)
		MPI_Abort(MPI_COMM_WORLD, 1);
	int failed = rlb_mpi_open(spec, m);
	*comm = MPI_Comm_c2f(m->comm);
	if (failed == 0)
		return m;
	rlb_mpi_close(m);
	free(m);
	return NULL;
}

rlb *rlb_mpi_root_f(rlb_mpi *m) { return m->root; }

void rlb_mpi_close_f(rlb_mpi *m)
{
	if (m != NULL)
		rlb_mpi_close(m);
	free(m);
}
