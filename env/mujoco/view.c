//go:build mujoco

#include "view.h"

#include <stdlib.h>
#include <string.h>

/* roams reports whether joint j lets its body move without limit. */
static int roams(const mjModel *m, int j) {
	return m->jnt_type[j] == mjJNT_FREE || (m->jnt_type[j] == mjJNT_SLIDE && !m->jnt_limited[j]);
}

/* aim chooses the camera. */
static void aim(rl_view *v, int camera) {
	const mjModel *m = v->model;
	mjv_defaultFreeCamera(m, &v->camera);
	if (camera >= 0 || m->ncam) {
		v->camera.type = mjCAMERA_FIXED;
		v->camera.fixedcamid = camera < 0 ? 0 : camera;
	} else if (m->njnt && roams(m, 0)) {
		v->follows = m->jnt_bodyid[0];
		v->camera.elevation = -20;
		v->camera.distance = m->stat.extent;
	}
}

rl_view *rl_open_view(const mjModel *m, int camera, int width, int height, int shadows, char *said) {
	rl_view *v = calloc(1, sizeof *v);
	v->model = m, v->width = width, v->height = height, v->shadows = shadows;
	mjv_defaultOption(&v->option);
	mjv_defaultScene(&v->scene);
	aim(v, camera);
	v->pose = rl_make(m, said);
	if (!v->pose) {
		rl_close_view(v);
		return NULL;
	}
	jmp_buf escape;
	if (setjmp(escape)) {
		rl_close_view(v);
		return NULL;
	}
	rl_listen(&escape, said);
	mjv_makeScene(m, &v->scene, 64 + 2 * (m->ngeom + m->nsite) + 4 * m->nwrap);
	rl_listen(NULL, NULL);
	return v;
}

void rl_close_view(rl_view *v) {
	mjv_freeScene(&v->scene);
	if (v->pose) mj_deleteData(v->pose);
	free(v);
}

/* headlight brightens MuJoCo's default headlight, of 0.1 and 0.4, in a model without a light: it would be too dark. */
static void headlight(rl_view *v) {
	const mjVisual *vis = &v->model->vis;
	for (int k = 0; k < 3; k++)
		if (vis->headlight.ambient[k] != 0.1f || vis->headlight.diffuse[k] != 0.4f) return; /* set by the model */
	for (int i = 0; v->model->nlight == 0 && i < v->scene.nlight; i++)
		for (int k = 0; k < 3; k++) v->scene.lights[i].ambient[k] = 0.4f, v->scene.lights[i].diffuse[k] = 0.6f;
}

void rl_look(rl_view *v, const mjData *d, const float *colour) {
	const mjModel *m = v->model;
	mju_copy(v->pose->qpos, d->qpos, m->nq);
	mju_copy(v->pose->mocap_pos, d->mocap_pos, 3 * m->nmocap);
	mju_copy(v->pose->mocap_quat, d->mocap_quat, 4 * m->nmocap);
	mj_kinematics(m, v->pose);
	mj_comPos(m, v->pose); /* cameras may depend on it */
	if (v->follows) /* set here, because MuJoCo's tracking camera lags behind */
		mju_copy3(v->camera.lookat, v->pose->subtree_com + 3 * v->follows);
	mj_camlight(m, v->pose);
	if (m->ntendon) mj_tendon(m, v->pose);
	mjv_updateScene(m, v->pose, &v->option, NULL, &v->camera, mjCAT_ALL, &v->scene);
	headlight(v);
	for (int i = 0; colour && i < v->scene.ngeom; i++) {
		mjvGeom *g = &v->scene.geoms[i];
		if (g->objtype == mjOBJ_GEOM) memcpy(g->rgba, colour + 4 * g->objid, sizeof g->rgba);
	}
}
