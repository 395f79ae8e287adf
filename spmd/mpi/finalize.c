//go:build mpi

// The end of a process whose MPI_Finalize does not return. The launcher must still take it for one that ended in order.

#include "inner.h"

#include <dlfcn.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static pthread_t finalizing; // the thread that calls MPI_Finalize
static atomic_int woken;     // by a signal

void rl_finalize_begins(void) { finalizing = pthread_self(); }

static void wake(int sig) {
	(void)sig;
	atomic_store(&woken, 1);
}

// take_connection returns a descriptor of the launcher's socket fd, and leaves a silent socket in its place. A thread
// that reads from fd, as in a barrier, is interrupted. Then it reads from the silent socket, for ever.
static int take_connection(int fd) {
	int silent[2], own = dup(fd);
	if (own < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, silent) != 0 || dup2(silent[0], fd) < 0) return -1;
	struct sigaction sa;
	memset(&sa, 0, sizeof sa);
	sa.sa_handler = wake;
	sa.sa_flags = SA_ONSTACK | SA_RESTART; // Go wants the stack, and the read begins anew with what fd is now
	sigfillset(&sa.sa_mask);
	if (sigaction(SIGRTMAX, &sa, NULL) == 0 && pthread_kill(finalizing, SIGRTMAX) == 0) {
		for (int i = 0; i < 100 && !atomic_load(&woken); i++) rl_sleep(1000 * 1000);
	}
	return own;
}

// MARGIN_NS is more than the time between the moments at which the first and the last rank come here. Until then no
// rank may leave Hydra, which ends a barrier of PMI by a message to all processes and fails if one has left. Ranks that
// have taken their connection do not come to a barrier any more.
enum { MARGIN_NS = 1000 * 1000 * 1000, ANSWER_MS = 1000 };

// leave_hydra says to the launcher of MPICH what PMI_Finalize would say, and waits until the launcher has answered.
static void leave_hydra(void) {
	static const char text[] = "cmd=finalize\n";
	const char *name = getenv("PMI_FD");
	if (!name || !getenv("HYDI_CONTROL_FD")) return; // Slurm's PMI sets PMI_FD as well, and expects nothing
	int fd = take_connection(atoi(name));
	for (int64_t start = rl_now(); rl_now() - start < MARGIN_NS;) rl_sleep(MARGIN_NS / 100);
	if (fd < 0 || write(fd, text, sizeof text - 1) < 0) return;
	char answer[1024] = "";
	ssize_t n = 0, got;
	struct pollfd ready = {.fd = fd, .events = POLLIN};
	while (n < (ssize_t)sizeof answer - 1 && !strstr(answer, "finalize_ack") && poll(&ready, 1, ANSWER_MS) > 0 &&
		   (got = read(fd, answer + n, sizeof answer - 1 - (size_t)n)) > 0)
		n += got;
}

typedef int pmix_finalize(const void *info, size_t n);

// find_pmix looks for PMIx_Finalize in an object of the process. The second name is that of the copy within Open MPI 4.
static int find_pmix(struct dl_phdr_info *object, size_t size, void *found) {
	(void)size;
	static const char *const names[] = {"PMIx_Finalize", "OPAL_MCA_PMIX3X_PMIx_Finalize"};
	void *handle, *end = NULL;
	if (!strstr(object->dlpi_name, "pmix") || !(handle = dlopen(object->dlpi_name, RTLD_LAZY | RTLD_NOLOAD))) return 0;
	for (size_t i = 0; i < sizeof names / sizeof *names && !end; i++) end = dlsym(handle, names[i]);
	memcpy(found, &end, sizeof end);
	return end != NULL;
}

// leave_pmix calls PMIx_Finalize as often as PMIx was started.
static void leave_pmix(void) {
	pmix_finalize *end = NULL;
	dl_iterate_phdr(find_pmix, &end);
	for (int n = 0; end && n < 16 && end(NULL, 0) == 0; n++) {}
}

void rl_finalize_without(void) {
	leave_hydra();
	leave_pmix();
}
