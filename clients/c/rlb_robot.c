/* rlb_robot.c implements rlb_robot.h. */
#define _POSIX_C_SOURCE 200809L
#include "rlb_robot.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct rlb_robot {
	rlb_clock clock;
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	pthread_t thread;
	char *action;
	int moving;          /* the action is repeated; 0: the robot rests */
	int age;             /* periods since the last act */
	int fresh;           /* an action that the thread has not commanded yet */
	int closed;          /* stopped for good */
	double ended;        /* when the last period with an action ended; 0 after a pause */
};

/* The robots that run, for the end of the program. A lock orders it and the changes of this list. */
enum { MOST = 16 };
static rlb_robot *running[MOST];
static pthread_mutex_t listing = PTHREAD_MUTEX_INITIALIZER;
static int term[2] = {-1, -1}; /* a pipe that the handler of SIGTERM writes to */

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* wait_until waits for a change, until a time at most. The caller has locked the mutex. */
static void wait_until(rlb_robot *r, double when)
{
	struct timespec t;
	t.tv_sec = (time_t)when;
	t.tv_nsec = (long)((when - (double)t.tv_sec) * 1e9);
	pthread_cond_timedwait(&r->changed, &r->mutex, &t);
}

static void rest(rlb_robot *r)
{
	if (r->moving) {
		r->moving = 0;
		r->clock.stop(r->clock.user);
	}
}

/* tick commands the action of a period, or stops the robot if the action is too old. */
static void tick(rlb_robot *r)
{
	r->fresh = 0;
	if (!r->closed && r->moving) {
		if (r->age >= r->clock.hold) {
			rest(r);
		} else if (r->clock.command(r->clock.user, r->action) != 0) {
			r->closed = 1;
			rest(r);
			pthread_cond_broadcast(&r->changed);
		}
	}
	r->age++;
}

static void *run(void *robot)
{
	rlb_robot *r = (rlb_robot *)robot;
	pthread_mutex_lock(&r->mutex);
	while (!r->closed) {
		double next = now() + r->clock.period;
		tick(r);
		while (!r->closed && !r->fresh && now() < next)
			wait_until(r, next);
	}
	pthread_mutex_unlock(&r->mutex);
	return NULL;
}

/* halt stops the robot for good. */
static void halt(rlb_robot *r)
{
	pthread_mutex_lock(&r->mutex);
	if (!r->closed) {
		r->closed = 1;
		r->moving = 0;
		r->clock.stop(r->clock.user); /* also if it rests: nobody knows what has moved it since */
	}
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->mutex);
}

static void halt_all(void)
{
	pthread_mutex_lock(&listing);
	for (int i = 0; i < MOST; i++)
		if (running[i] != NULL)
			halt(running[i]);
	pthread_mutex_unlock(&listing);
}

static void on_term(int sig)
{
	int was = errno;
	char c = (char)sig;
	if (write(term[1], &c, 1) < 0)
		_exit(128 + sig);
	errno = was;
}

/* watch waits for SIGTERM, stops the robots, and ends the program as the signal would. */
static void *watch(void *unused)
{
	char c;
	(void)unused;
	while (read(term[0], &c, 1) < 0 && errno == EINTR)
		;
	halt_all();
	signal(SIGTERM, SIG_DFL);
	kill(getpid(), SIGTERM);
	return NULL;
}

/* prepare sets up the end of the program, once. */
static int prepare(void)
{
	pthread_t watcher;
	struct sigaction sa;
	if (term[0] >= 0)
		return 0;
	if (pipe(term) != 0)
		return -1;
	if (pthread_create(&watcher, NULL, watch, NULL) != 0)
		return -1;
	pthread_detach(watcher);
	memset(&sa, 0, sizeof sa);
	sa.sa_handler = on_term;
	sa.sa_flags = SA_RESTART;
	sigaction(SIGTERM, &sa, NULL);
	return atexit(halt_all);
}

rlb_robot *rlb_robot_start(const rlb_clock *clock)
{
	if (!(clock->period >= 1e-3) || clock->size == 0 || clock->command == NULL || clock->stop == NULL ||
	    clock->hold < 0)
		return NULL;
	rlb_robot *r = (rlb_robot *)calloc(1, sizeof *r);
	char *action = (char *)calloc(1, clock->size);
	int slot = 0;
	pthread_mutex_lock(&listing);
	while (slot < MOST && running[slot] != NULL)
		slot++;
	if (r == NULL || action == NULL || slot == MOST || prepare() != 0)
		goto failed;
	r->clock = *clock;
	r->clock.hold = clock->hold != 0 ? clock->hold : 3;
	r->action = action;
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_mutex_init(&r->mutex, NULL);
	pthread_cond_init(&r->changed, &monotonic);
	if (!clock->is_virtual && pthread_create(&r->thread, NULL, run, r) != 0)
		goto failed;
	running[slot] = r;
	pthread_mutex_unlock(&listing);
	return r;
failed:
	pthread_mutex_unlock(&listing);
	free(action);
	free(r);
	return NULL;
}

int rlb_robot_act(rlb_robot *r, const void *action)
{
	pthread_mutex_lock(&r->mutex);
	double began = now(), due = r->ended + r->clock.period;
	int late = r->clock.is_virtual ? r->age > 1 : r->ended > 0 && began > due;
	if (late || r->ended == 0)
		due = began + r->clock.period;
	if (!r->closed) {
		memcpy(r->action, action, r->clock.size);
		r->moving = r->fresh = 1;
		r->age = 0;
		if (r->clock.is_virtual)
			tick(r);
		pthread_cond_broadcast(&r->changed);
		while (!r->clock.is_virtual && !r->closed && now() < due)
			wait_until(r, due);
		r->ended = due;
	}
	int closed = r->closed;
	pthread_mutex_unlock(&r->mutex);
	return closed ? -1 : late;
}

void rlb_robot_idle(rlb_robot *r, int periods)
{
	pthread_mutex_lock(&r->mutex);
	for (int i = 0; i < periods; i++)
		tick(r);
	pthread_mutex_unlock(&r->mutex);
}

void rlb_robot_pause(rlb_robot *r)
{
	pthread_mutex_lock(&r->mutex);
	r->ended = 0;
	r->age = 0;
	rest(r);
	pthread_mutex_unlock(&r->mutex);
}

void rlb_robot_close(rlb_robot *r)
{
	if (r == NULL)
		return;
	halt(r);
	pthread_mutex_lock(&listing);
	for (int i = 0; i < MOST; i++)
		if (running[i] == r)
			running[i] = NULL;
	pthread_mutex_unlock(&listing);
	if (!r->clock.is_virtual)
		pthread_join(r->thread, NULL);
	pthread_mutex_destroy(&r->mutex);
	pthread_cond_destroy(&r->changed);
	free(r->action);
	free(r);
}
