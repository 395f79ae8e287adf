/* osmesa.h draws views with MuJoCo's own renderer and OpenGL in software. */
#pragma once

#include "view.h"

/* rl_mesa is a context of OpenGL for one view. */
typedef struct rl_mesa rl_mesa;

/* rl_open_mesa makes the context of v, a view of m. It returns NULL on errors, with the reason in said. The first
 * call reads LP_NUM_THREADS: unless it is "0", drawing uses all cores. */
rl_mesa *rl_open_mesa(rl_view *v, mjModel *m, char *said);

void rl_close_mesa(rl_mesa *o);

/* rl_mesa_draw has the contract of rl_cast. */
int rl_mesa_draw(rl_mesa *o, rl_view *v, mjData *const *data, int n, const uint8_t *mask, const float *colour,
	uint8_t *rgb);
