//go:build mpi

// Waiting. A wait first spins here, then makes short sleeps in Go (shortsleep.go), and then sleeps here. The progress
// thread sleeps in rl_idle until it is woken.

#include "inner.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

// If every rank has a core, a wait spins first. With fewer cores than ranks, a rank that spins may keep the core from
// the rank that it waits for.
enum { SPIN_NS = 20 * 1000, POLLS = 64 };

// A sleep between two tests of MPI takes 1/64 of the time waited so far, so it lengthens a wait by at most 1/64.
enum { SLEEP_SHARE = 64, SLEEP_MIN_NS = 5 * 1000, SLEEP_MAX_NS = 400 * 1000 };

enum { SLICE_MAX_NS = 50 * 1000 * 1000 };

// The futex is not private, because other processes may sleep on the word.
static long futex(_Atomic uint32_t *word, int op, uint32_t value, const struct timespec *timeout) {
	return syscall(SYS_futex, word, op, value, timeout, NULL, 0);
}

static int came(const rl_event *ev) {
	return atomic_load_explicit(ev->word, memory_order_acquire) != ev->old ||
		(ev->top && atomic_load_explicit(ev->top, memory_order_acquire));
}

// sleep_for sleeps until the event comes, for at most ns. It reports whether another thread has ended the sleep.
static int sleep_for(const rl_event *ev, int64_t ns) {
	int woken = 0;
	struct timespec timeout = {ns / 1000000000, ns % 1000000000};
	// The increment comes before the last tests of ev->top here and of the word in the kernel. So a thread that causes
	// the event after these tests sees the increment and wakes this thread.
	atomic_fetch_add(ev->sleepers, 1);
	if (!ev->top || !atomic_load(ev->top)) woken = !futex(ev->word, FUTEX_WAIT, ev->old, &timeout);
	atomic_fetch_sub(ev->sleepers, 1);
	return woken;
}

void rl_wake(_Atomic uint32_t *word, _Atomic uint32_t *sleepers) {
	atomic_fetch_add(word, 1);
	if (atomic_load(sleepers)) futex(word, FUTEX_WAKE, INT_MAX, NULL);
}

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ __volatile__("yield");
#endif
}

static int64_t clamp(int64_t x, int64_t least, int64_t most) { return x < least ? least : x > most ? most : x; }

int64_t rl_slice(int64_t waited_ns) { return clamp(waited_ns / 4, RL_SLICE_NS, SLICE_MAX_NS); }

static int64_t backoff(int64_t waited_ns) { return clamp(waited_ns / SLEEP_SHARE, SLEEP_MIN_NS, SLEEP_MAX_NS); }

// poll_event polls for the event up to POLLS times. It returns 1 if the event came.
static int poll_event(const rl_event *ev) {
	for (int i = 0; i < POLLS; i++) {
		if (came(ev)) return 1;
		relax();
	}
	return 0;
}

int rl_spin(const rl_world *w, const rl_event *ev, int64_t *waited_ns) {
	if (w->oversubscribed || *waited_ns >= SPIN_NS) return 0;
	if (poll_event(ev)) return 1;
	int64_t start = rl_now() - *waited_ns;
	int done = 0;
	do done = poll_event(ev);
	while ((*waited_ns = rl_now() - start) < SPIN_NS && !done);
	return done;
}

int rl_sleep_for(const rl_event *ev, int64_t *waited_ns, int64_t sleep_ns) {
	int64_t start = rl_now();
	sleep_for(ev, sleep_ns);
	*waited_ns += rl_now() - start;
	return came(ev);
}

int rl_await(rl_world *w, uintptr_t word, uintptr_t sleepers, uint32_t old, int64_t *waited_ns) {
	rl_event ev = {(_Atomic uint32_t *)word, (_Atomic uint32_t *)sleepers, old, NULL};
	if (rl_spin(w, &ev, waited_ns)) return 0;
	if (*waited_ns >= RL_SHORT_SLEEP_NS) rl_sleep_for(&ev, waited_ns, rl_slice(*waited_ns));
	return came(&ev) ? 0 : RL_PENDING;
}

// no_slack makes the thread's sleeps end on time. With the default timer slack a sleep of 1 us takes 56 us.
static void no_slack(void) {
	static _Thread_local int set;
	if (!set) prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
	set = 1;
}

int rl_pause(rl_world *w, int64_t waited_ns, const rl_event *ev) {
	if (waited_ns > RL_SHORT_SLEEP_NS && ev) {
		no_slack();
		if (sleep_for(ev, backoff(waited_ns))) atomic_fetch_add(&w->woken, 1);
	} else if (waited_ns > RL_SHORT_SLEEP_NS)
		rl_backoff(waited_ns);
	else if (waited_ns > SPIN_NS || (w && w->oversubscribed))
		sched_yield();
	else
		return 0;
	return 1;
}

void rl_backoff(int64_t waited_ns) { rl_sleep(backoff(waited_ns)); }

void rl_sleep(int64_t ns) {
	no_slack();
	struct timespec t = {ns / 1000000000, ns % 1000000000};
	nanosleep(&t, NULL);
}

int rl_wait_asleep(MPI_Request *req) {
	int64_t start = rl_now();
	for (int done = 0;;) {
		int rc = MPI_Test(req, &done, MPI_STATUS_IGNORE);
		if (rc != MPI_SUCCESS || done) return rc;
		rl_backoff(rl_now() - start);
	}
}

void rl_idle(rl_world *w, int64_t ns, uint32_t posts) {
	rl_wake_word *wake = atomic_load(&w->wake);
	if (!atomic_load(&w->leaving)) sleep_for(&(rl_event){&wake->posts, &wake->sleepers, posts, NULL}, ns);
}

void rl_wake_progress(rl_world *w) {
	rl_wake_word *wake = atomic_load(&w->wake);
	rl_wake(&wake->posts, &wake->sleepers);
}
