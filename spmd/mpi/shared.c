//go:build mpi

// Memory that the ranks of a node have in common: how they tell each other of it, and how they wait for a word in it.

#include "inner.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

// How a wait goes on, as long as every rank of the node has a core: spin, yield a few times, then sleep in the kernel until the word is posted. With fewer cores
// than ranks, who spins keeps the core from the rank that it waits for.
enum { SPIN_NS = 20 * 1000, YIELDS = 4, CROWDED_YIELDS = 1, LOOKS = 64 };

// How long the kernel keeps a sleeper at most, so that Go can look at its context: longer the longer the wait.
enum { SLEEP_MAX_NS = 50 * 1000 * 1000 };

int rl_node_gather(rl_world *w, const void *mine, int n, void *all, rl_fault *fault) {
	MPI_Request req;
	TRY(MPI_Iallgather(mine, n, MPI_BYTE, all, n, MPI_BYTE, w->node, &req));
	TRY(rl_settle(&req));
	return MPI_SUCCESS;
}

int rl_world_agree(rl_world *w, int *yes, rl_fault *fault) {
	MPI_Request req;
	TRY(MPI_Iallreduce(MPI_IN_PLACE, yes, 1, MPI_INT, MPI_MIN, w->world, &req));
	TRY(rl_settle(&req));
	return MPI_SUCCESS;
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield");
#endif
}

// The word is seen by other processes: a futex that is not private.
static long futex(uint32_t *word, int op, uint32_t value, const struct timespec *timeout) {
	return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

int rl_await(uintptr_t word, uintptr_t asleep, uint32_t old, int crowded, int64_t *waited_ns) {
	_Atomic uint32_t *value = (_Atomic uint32_t *)word, *sleepers = (_Atomic uint32_t *)asleep;
	int64_t start = rl_now();
	if (*waited_ns == 0) {
		if (!crowded)
			while (rl_now() - start < SPIN_NS)
				for (int i = 0; i < LOOKS; i++) {
					if (atomic_load_explicit(value, memory_order_acquire) != old) return 0;
					relax();
				}
		for (int i = 0; i < (crowded ? CROWDED_YIELDS : YIELDS); i++) {
			sched_yield();
			if (atomic_load_explicit(value, memory_order_acquire) != old) return 0;
		}
	}
	int64_t ns = *waited_ns / 4 < RL_SLICE_NS ? RL_SLICE_NS : *waited_ns / 4 > SLEEP_MAX_NS ? SLEEP_MAX_NS : *waited_ns / 4;
	struct timespec timeout = {0, ns};
	atomic_fetch_add(sleepers, 1); // before the kernel compares the word: who posts after that sees it
	futex((uint32_t *)word, FUTEX_WAIT, old, &timeout);
	atomic_fetch_sub(sleepers, 1);
	*waited_ns += rl_now() - start;
	return atomic_load_explicit(value, memory_order_acquire) != old ? 0 : RL_PENDING;
}

void rl_wake(uintptr_t word) { futex((uint32_t *)word, FUTEX_WAKE, INT_MAX, NULL); }
