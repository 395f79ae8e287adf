/* osmesa.h draws views by MuJoCo's own renderer and OpenGL in software. */
#pragma once

#include "view.h"

/* rl_mesa is a context of OpenGL for one view. */
typedef struct rl_mesa rl_mesa;

/* rl_open_mesa makes the context of v, a view of m. NULL: it said why not. The first one reads LP_NUM_THREADS: without
 * "0" there, drawing takes all cores. */
rl_mesa *rl_open_mesa(rl_view *v, mjModel *m, char *said);

void rl_close_mesa(rl_mesa *o);

/* rl_mesa_draw is what rl_cast is. */
int rl_mesa_draw(rl_mesa *o, rl_view *v, mjData *const *data, int n, const uint8_t *mask, const float *colour,
	uint8_t *rgb);
