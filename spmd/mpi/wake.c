//go:build mpi

// How threads wait: a wait first spins, then yields its core, then sleeps; the progress thread idles until it is kicked.

#include "inner.h"

#include <errno.h>
#include <sched.h>
#include <sys/prctl.h>

// A sleep takes 1/64 of the time waited so far: that is how late a wait may see its end.
enum { SPIN_NS = 20 * 1000, YIELD_NS = 1000 * 1000, SLEEP_SHARE = 64, SLEEP_MIN_NS = 5 * 1000, SLEEP_MAX_NS = 400 * 1000 };

int rl_pause(int64_t waited) {
	if (waited > YIELD_NS) {
		rl_backoff(waited);
	} else if (waited > SPIN_NS) {
		sched_yield();
	}
	return waited > SPIN_NS;
}

void rl_backoff(int64_t waited) {
	int64_t ns = waited / SLEEP_SHARE;
	rl_sleep(ns < SLEEP_MIN_NS ? SLEEP_MIN_NS : ns > SLEEP_MAX_NS ? SLEEP_MAX_NS : ns);
}

void rl_sleep(int64_t ns) {
	static _Thread_local int exact;
	if (!exact) {
		prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
		exact = 1;
	}
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
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ns / 1000000000;
	if ((until.tv_nsec += ns % 1000000000) >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
	pthread_mutex_lock(&w->lock);
	atomic_store(&w->idling, 1);
	while (atomic_load(&w->posts) == posts && !atomic_load(&w->leaving))
		if (pthread_cond_timedwait(&w->kick, &w->lock, &until) == ETIMEDOUT) break;
	atomic_store(&w->idling, 0);
	pthread_mutex_unlock(&w->lock);
}

void rl_kick(rl_world *w) {
	atomic_fetch_add(&w->posts, 1);
	if (!atomic_load(&w->idling)) return;
	pthread_mutex_lock(&w->lock);
	pthread_cond_signal(&w->kick);
	pthread_mutex_unlock(&w->lock);
}
