/* batch.h is the interface of env/mujoco to MuJoCo's simulation. MuJoCo's errors do not return to their callers; the
 * functions here return them as text in said, which has room for RL_SAID bytes. Nothing here keeps Go memory or calls
 * Go. */
#pragma once

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

#include <mujoco/mujoco.h>

_Static_assert(sizeof(mjtNum) == sizeof(double), "the library is built for float64");

enum { RL_SAID = 1024 };

/* rl_batch is n environments of one model. */
typedef struct {
	const mjModel *model;
	mjData **data;     /* [n] */
	int n;
	int substeps;      /* simulation steps per environment step */
	int contacts;      /* compute cfrc_ext after a step */
	int renew;         /* recompute after a step: 1 poses of bodies and sites, 2 also sensors of these */
	int actuators;     /* numbers in an action */
	int *actuator;     /* [actuators]: the actuator that each number of an action sets */
	int angles;
	int *angle;        /* [angles]: indices into qpos */
	double *cos, *sin; /* [n, angles]: of the angles */
	mjtNum time;       /* simulation time before the substep that said is about */
	char said[RL_SAID];
} rl_batch;

/* rl_listen begins calls into MuJoCo that may fail. An error jumps to escape; the first message goes to said.
 * rl_listen(NULL, NULL) ends it. */
void rl_listen(jmp_buf *escape, char *said);

/* rl_load reads a model from a file, or from text if that is not NULL. It returns NULL on errors, with the reason in
   said. */
mjModel *rl_load(const char *file, const char *text, size_t size, char *said);

/* rl_make makes the data of one environment, in the model's initial state. It returns NULL on errors, with the reason
   in said. */
mjData *rl_make(const mjModel *m, char *said);

/* rl_begin computes MuJoCo's derived quantities after the caller wrote the state of environment i. It returns 0 on
 * errors, with the reason in b->said. */
int rl_begin(rl_batch *b, int i);

/* rl_step steps the environments from number `from` on whose turn is not 0, each with its row of action, [n,
 * actuators]. It returns n, or the number of the first environment that failed, with the reason in b->said. Those
 * after it did not step; its data may only go to rl_remake. */
int rl_step(rl_batch *b, int from, const float *action, const uint8_t *turn);

/* rl_remake gives environment i new data. It returns 0 on errors, keeps the old data, and puts the reason
 * in b->said. */
int rl_remake(rl_batch *b, int i);
