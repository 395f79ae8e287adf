//go:build mpi

// How threads wait: a wait first spins, then Go naps (nap.go), then the thread sleeps; the progress thread idles until it is kicked.

#include "inner.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

// Where every rank has a core, a wait spins first. With fewer cores than ranks, a rank that spins keeps its core from the rank that it waits for.
enum { SPIN_NS = 20 * 1000, LOOKS = 64 };

// A sleep between looks at MPI takes 1/64 of the time waited so far: that is how late a wait may see its end.
enum { SLEEP_SHARE = 64, SLEEP_MIN_NS = 5 * 1000, SLEEP_MAX_NS = 400 * 1000 };

enum { SLICE_MAX_NS = 50 * 1000 * 1000 };

// The word may be seen by other processes: a futex that is not private.
static long futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout) {
	return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

static int came(const rl_post *p) {
	return atomic_load_explicit(p->word, memory_order_acquire) != p->old || (p->top && atomic_load_explicit(p->top, memory_order_acquire));
}

// sleep_for reports whether somebody has ended the sleep.
static int sleep_for(const rl_post *p, int64_t ns) {
	int woken = 0;
	struct timespec timeout = {ns / 1000000000, ns % 1000000000};
	atomic_fetch_add(p->asleep, 1); // before the last look, and before the kernel compares the word: who posts after that sees it
	if (!p->top || !atomic_load(p->top)) woken = !futex(p->word, FUTEX_WAIT, p->old, &timeout);
	atomic_fetch_sub(p->asleep, 1);
	return woken;
}

void rl_ring(_Atomic uint32_t *word, _Atomic uint32_t *asleep) {
	atomic_fetch_add(word, 1);
	if (atomic_load(asleep)) futex(word, FUTEX_WAKE, INT_MAX, NULL);
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield");
#endif
}

int64_t rl_slice(int64_t waited) { return waited / 4 < RL_SLICE_NS ? RL_SLICE_NS : waited / 4 > SLICE_MAX_NS ? SLICE_MAX_NS : waited / 4; }

// look_often looks a while for the post: 1 if it came.
static int look_often(const rl_post *p) {
	for (int i = 0; i < LOOKS; i++) {
		if (came(p)) return 1;
		relax();
	}
	return 0;
}

int rl_spin(const rl_world *w, const rl_post *p, int64_t *waited_ns) {
	if (w->crowded || *waited_ns >= SPIN_NS) return 0;
	if (look_often(p)) return 1;
	int64_t start = rl_now() - *waited_ns;
	int done = 0;
	do done = look_often(p);
	while ((*waited_ns = rl_now() - start) < SPIN_NS && !done);
	return done;
}

int rl_rest(const rl_post *p, int64_t *waited_ns, int64_t sleep_ns) {
	int64_t start = rl_now();
	sleep_for(p, sleep_ns);
	*waited_ns += rl_now() - start;
	return came(p);
}

int rl_await(rl_world *w, uintptr_t word, uintptr_t asleep, uint32_t old, int64_t *waited_ns) {
	rl_post p = {(_Atomic uint32_t *)word, (_Atomic uint32_t *)asleep, old, NULL};
	if (rl_spin(w, &p, waited_ns)) return 0;
	if (*waited_ns >= RL_NAP_NS) rl_rest(&p, waited_ns, rl_slice(*waited_ns));
	return came(&p) ? 0 : RL_PENDING;
}

static int64_t backoff(int64_t waited) {
	int64_t ns = waited / SLEEP_SHARE;
	return ns < SLEEP_MIN_NS ? SLEEP_MIN_NS : ns > SLEEP_MAX_NS ? SLEEP_MAX_NS : ns;
}

// exact lets the thread's sleeps end on time: with the default timer slack a sleep of 1 us takes 56 us.
static void exact(void) {
	static _Thread_local int set;
	if (!set) prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
	set = 1;
}

int rl_pause(rl_world *w, int64_t waited, const rl_post *p) {
	if (waited > RL_NAP_NS && p) {
		exact();
		if (sleep_for(p, backoff(waited))) atomic_fetch_add(&w->woken, 1);
	} else if (waited > RL_NAP_NS)
		rl_backoff(waited);
	else if (waited > SPIN_NS || (w && w->crowded))
		sched_yield();
	else
		return 0;
	return 1;
}

void rl_backoff(int64_t waited) { rl_sleep(backoff(waited)); }

void rl_sleep(int64_t ns) {
	exact();
	struct timespec t = {ns / 1000000000, ns % 1000000000};
	nanosleep(&t, NULL);
}

int rl_settle(MPI_Request *req) {
	int64_t start = rl_now();
	for (int done = 0;;) {
		int rc = MPI_Test(req, &done, MPI_STATUS_IGNORE);
		if (rc != MPI_SUCCESS || done) return rc;
		rl_backoff(rl_now() - start);
	}
}

void rl_idle(rl_world *w, int64_t ns, uint32_t posts) {
	rl_door *d = atomic_load(&w->door);
	if (!atomic_load(&w->leaving)) sleep_for(&(rl_post){&d->posts, &d->asleep, posts, NULL}, ns);
}

void rl_kick(rl_world *w) {
	rl_door *d = atomic_load(&w->door);
	rl_ring(&d->posts, &d->asleep);
}
