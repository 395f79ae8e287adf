/* view.h draws environments. A view is a camera, and what it sees of one environment after the other. What is drawn
 * follows from qpos and the poses of mocap bodies alone, whatever a step left in the rest of the data, and that data is
 * only read. */
#pragma once

#include "batch.h"

typedef struct {
	const mjModel *model;
	mjData *pose;     /* of the environment that is looked at */
	mjvCamera camera;
	int follows;      /* the body that the camera looks at; 0: it stays where it is */
	mjvOption option;
	mjvScene scene;   /* what is seen: shapes, lights, the camera's place */
	int width, height; /* pixels */
	int shadows;
	char said[RL_SAID];
} rl_view;

/* rl_open_view makes a view of m through camera number `camera`. -1 is the model's first one; a model without any is
 * seen by MuJoCo's free camera, which follows the body of the first joint, seen from the side, where that may go
 * anywhere. NULL: it said why not. */
rl_view *rl_open_view(const mjModel *m, int camera, int width, int height, int shadows, char *said);

void rl_close_view(rl_view *v);

/* rl_look fills v->scene with what is seen of d. MuJoCo's errors leave it by the caller's rl_listen. Shape i of the
 * model has the colour of row i of colour, [ngeom, 4], where that is not NULL; with an opacity of 0 it is not there. */
void rl_look(rl_view *v, const mjData *d, const float *colour);

/* rl_cast draws the environments of data, [n], whose mask is not 0, all with a NULL mask, into rgb, [n, height, width,
 * 3], from the top row down, by casting a ray through every pixel. colour, [n, ngeom, 4], or NULL, is rl_look's. It
 * returns n, or the environment where it stopped: v->said says why. */
int rl_cast(rl_view *v, mjData *const *data, int n, const uint8_t *mask, const float *colour, uint8_t *rgb);

/* rl_casts returns whether rl_cast can draw all that m shows. 0: said says what it cannot. */
int rl_casts(const mjModel *m, char *said);
