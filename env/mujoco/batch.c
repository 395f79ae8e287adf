//go:build mujoco

#define _GNU_SOURCE
#include "batch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* MuJoCo ends the process on an error if its handler returns, and writes a file on a warning. The handlers belong to
 * the process, their data to a thread: every call into MuJoCo that may fail runs after setjmp and rl_listen, and
 * before another rl_listen that ends the protection. */
static _Thread_local jmp_buf *guard;
static _Thread_local char *saying; /* only the first message is kept */

static void keep(const char *text) {
	if (saying && !saying[0]) snprintf(saying, RL_SAID, "%s", text);
}

static void on_error(const char *text) {
	if (!guard) {
		fprintf(stderr, "mujoco: %s\n", text);
		abort();
	}
	keep(text);
	jmp_buf *to = guard;
	guard = NULL;
	longjmp(*to, 1);
}

__attribute__((constructor)) static void take_handlers(void) {
	mju_user_error = on_error;
	mju_user_warning = keep;
}

void rl_listen(jmp_buf *escape, char *said) {
	if (said) said[0] = 0;
	saying = said;
	guard = escape;
}

mjModel *rl_load(const char *file, const char *text, size_t size, char *said) {
	char path[64], why[RL_SAID] = "";
	int fd = -1;
	if (text) { /* a file without a name; MuJoCo's own virtual files differ between its versions */
		fd = memfd_create("model", MFD_CLOEXEC);
		if (fd < 0 || write(fd, text, size) != (ssize_t)size) {
			snprintf(said, RL_SAID, "no memory for a file of %zu bytes", size);
			if (fd >= 0) close(fd);
			return NULL;
		}
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		file = path;
	}
	jmp_buf escape;
	mjModel *volatile m = NULL;
	if (!setjmp(escape)) {
		rl_listen(&escape, said);
		m = mj_loadXML(file, NULL, why, sizeof why);
		rl_listen(NULL, NULL);
	}
	if (fd >= 0) close(fd);
	if (!m && why[0]) snprintf(said, RL_SAID, "%s", why);
	return m;
}

mjData *rl_make(const mjModel *m, char *said) {
	jmp_buf escape;
	mjData *volatile d = NULL;
	if (!setjmp(escape)) {
		rl_listen(&escape, said);
		d = mj_makeData(m);
		rl_listen(NULL, NULL);
	}
	return d;
}

/* bad reports whether a number of x is not finite, or huge by MuJoCo's measure. MuJoCo itself checks this only at the
 * beginning of the next step. */
static int bad(rl_batch *b, const char *what, const mjtNum *x, int n) {
	for (int k = 0; k < n; k++)
		if (!(x[k] <= mjMAXVAL && x[k] >= -mjMAXVAL)) {
			if (!b->said[0]) snprintf(b->said, RL_SAID, "%s[%d] is %g: the simulation is unstable", what, k, x[k]);
			return 1;
		}
	return 0;
}

/* settle finishes a step or reset of environment i: it computes the extra quantities that tasks need, and returns 1
 * if the state is valid. */
static int settle(rl_batch *b, int i) {
	const mjModel *m = b->model;
	mjData *d = b->data[i];
	for (int k = 0; k < b->angles; k++) {
		mjtNum x = d->qpos[b->angle[k]];
		b->cos[i * b->angles + k] = cos(x);
		b->sin[i * b->angles + k] = sin(x);
	}
	int warnings = 0;
	for (int k = 0; k < mjNWARNING; k++) warnings += d->warning[k].number;
	if (warnings && !b->said[0]) snprintf(b->said, RL_SAID, "MuJoCo warned before");
	return !warnings && !bad(b, "qpos", d->qpos, m->nq) && !bad(b, "qvel", d->qvel, m->nv);
}

int rl_begin(rl_batch *b, int i) {
	jmp_buf escape;
	if (setjmp(escape)) return 0;
	rl_listen(&escape, b->said);
	b->time = b->data[i]->time;
	mj_forward(b->model, b->data[i]);
	rl_listen(NULL, NULL);
	return settle(b, i);
}

int rl_step(rl_batch *b, int from, const float *action, const uint8_t *turn) {
	const mjModel *m = b->model;
	jmp_buf escape;
	volatile int at = from; /* volatile: read after a longjmp */
	if (setjmp(escape)) return at;
	rl_listen(&escape, b->said);
	for (int i = from; i < b->n; i++) {
		if (!turn[i]) continue;
		at = i;
		mjData *d = b->data[i];
		for (int k = 0; k < b->actuators; k++) d->ctrl[b->actuator[k]] = action[i * b->actuators + k];
		for (int s = 0; s < b->substeps; s++) {
			if (!b->said[0]) b->time = d->time; /* a warning may reset d->time */
			mj_step(m, d);
		}
		if (b->contacts) mj_rnePostConstraint(m, d);
		if (b->renew == 1) mj_kinematics(m, d);
		if (b->renew == 2) mj_step1(m, d); /* the first half of a step, which the next step repeats */
		if (!settle(b, i)) {
			rl_listen(NULL, NULL);
			return i;
		}
	}
	rl_listen(NULL, NULL);
	return b->n;
}

int rl_remake(rl_batch *b, int i) {
	mjData *d = rl_make(b->model, b->said);
	if (!d) return 0;
	mj_deleteData(b->data[i]);
	b->data[i] = d;
	return 1;
}
