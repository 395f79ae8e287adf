//go:build mpi

// Closes the connection to PMIx in a process that exits without MPI_Finalize. Open MPI's launcher and Slurm use PMIx.

#define _GNU_SOURCE
#include "shim.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

typedef int pmix_finalize(const void *info, size_t n);

// find_pmix looks up PMIx_Finalize in a shared library of the process. The copy of PMIx in Open MPI 4 has the second
// name.
static int find_pmix(struct dl_phdr_info *object, size_t size, void *found) {
	(void)size;
	static const char *const names[] = {"PMIx_Finalize", "OPAL_MCA_PMIX3X_PMIx_Finalize"};
	void *handle, *end = NULL;
	if (!strstr(object->dlpi_name, "pmix") || !(handle = dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD))) return 0;
	for (size_t i = 0; i < sizeof names / sizeof *names && !end; i++) end = dlsym(handle, names[i]);
	memcpy(found, &end, sizeof end);
	return end != NULL;
}

void rl_pmix_finalize(void) {
	pmix_finalize *end = NULL;
	dl_iterate_phdr(find_pmix, &end);
	for (int n = 0; end && n < 16 && end(NULL, 0) == 0; n++) {} // each PMIx_Init needs its own PMIx_Finalize
}
