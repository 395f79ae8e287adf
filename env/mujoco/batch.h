/* batch.h is all that the environments ask of MuJoCo. Its errors do not return to the call that made them: they come
 * back from the calls here, with text in said, which has room for RL_SAID bytes. No Go memory is kept, nothing calls
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
	int substeps;      /* of the simulation in one step */
	int contacts;      /* compute cfrc_ext after a step */
	int renew;         /* after a step, compute of the state it left: 1 where the bodies are, 2 also what sensors of
	                    * position and velocity say */
	int actuators;     /* numbers in an action */
	int *actuator;     /* [actuators]: the one that each number sets */
	int angles;
	int *angle;        /* [angles]: indices into qpos */
	double *cos, *sin; /* [n, angles] of these */
	mjtNum time;       /* of the simulation, when the step of it began that said is about */
	char said[RL_SAID];
} rl_batch;

/* rl_listen begins calls of MuJoCo that may fail: an error goes to escape, and the first thing that MuJoCo says to
 * said. rl_listen(NULL, NULL) ends them. */
void rl_listen(jmp_buf *escape, char *said);

/* rl_load reads a model from a file, or from text where that is not NULL. NULL: it said why not. */
mjModel *rl_load(const char *file, const char *text, size_t size, char *said);

/* rl_make makes the data of one environment, in the model's own state. NULL: it said why not. */
mjData *rl_make(const mjModel *m, char *said);

/* rl_begin computes what follows from the state of environment i, which the caller wrote. 0: b->said says what is
 * wrong. */
int rl_begin(rl_batch *b, int i);

/* rl_step steps the environments from number `from` on whose turn is not 0, each with its row of action, [n,
 * actuators]. It returns n, or the first environment that went wrong: b->said says how, those after it did not step,
 * and its data is only good for rl_remake. */
int rl_step(rl_batch *b, int from, const float *action, const uint8_t *turn);

/* rl_remake gives environment i new data. 0: b->said says why not, and it has the old one. */
int rl_remake(rl_batch *b, int i);
