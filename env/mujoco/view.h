/* view.h draws environments. A view is a camera with its scene, used for one environment after the other. Pictures
 * depend only on qpos and the poses of mocap bodies, not on other data that a step left. Drawing does not change the
 * environment's data. */
#pragma once

#include "batch.h"

typedef struct {
	const mjModel *model;
	mjData *pose;     /* of the environment being drawn */
	mjvCamera camera;
	int follows;      /* the body that the camera looks at; 0: it stays in place */
	mjvOption option;
	mjvScene scene;   /* what is visible: shapes, lights, the camera's place */
	int width, height; /* pixels */
	int shadows;
	char said[RL_SAID];
} rl_view;

/* rl_open_view makes a view of m through camera number `camera`; -1 is the model's first one. A model without cameras
 * gets MuJoCo's free camera. If the first joint's body moves without limit, that camera follows it from the side. It
 * returns NULL on errors, with the reason in said. */
rl_view *rl_open_view(const mjModel *m, int camera, int width, int height, int shadows, char *said);

void rl_close_view(rl_view *v);

/* rl_look fills v->scene with the visible parts of d. MuJoCo's errors go to the caller's rl_listen. If colour,
 * [ngeom, 4], is not NULL, geom i has the colour of row i; a geom with an opacity of 0 is not drawn. */
void rl_look(rl_view *v, const mjData *d, const float *colour);

/* rl_cast draws the environments of data, [n], whose mask is not 0, or all for a NULL mask, into rgb, [n, height,
 * width, 3], from the top row down, by casting a ray through every pixel. colour, [n, ngeom, 4] or NULL, is as in
 * rl_look. It returns n, or the number of the environment that failed, with the reason in v->said. */
int rl_cast(rl_view *v, mjData *const *data, int n, const uint8_t *mask, const float *colour, uint8_t *rgb);

/* rl_casts reports whether rl_cast can draw all that m shows. If not, said names the unsupported part. */
int rl_casts(const mjModel *m, char *said);
