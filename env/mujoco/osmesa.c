//go:build mujoco && osmesa

#include "osmesa.h"

#include <GL/osmesa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct rl_mesa {
	OSMesaContext context;
	uint8_t screen[64]; /* OSMesa needs a small buffer; MuJoCo draws into a framebuffer of OpenGL */
	mjrContext drawing;
	uint8_t *upside_down; /* [height, width, 3] */
};

/* enter makes the context current in this thread. A goroutine may run on another thread in its next call, so every
 * call enters and leaves. */
static int enter(rl_mesa *o) { return OSMesaMakeCurrent(o->context, o->screen, GL_UNSIGNED_BYTE, 4, 4); }

static void leave(void) { OSMesaMakeCurrent(NULL, NULL, 0, 0, 0); }

/* make makes framebuffers of v's size, which MuJoCo reads from the model. */
static int make(rl_mesa *o, rl_view *v, mjModel *m, char *said) {
	int width = m->vis.global.offwidth, height = m->vis.global.offheight, samples = m->vis.quality.offsamples;
	m->vis.global.offwidth = v->width, m->vis.global.offheight = v->height;
	m->vis.quality.offsamples = 0; /* with the default of 4, reading a picture of 64 × 64 takes 4 ms */
	jmp_buf escape;
	volatile int made = 0;
	if (!setjmp(escape)) {
		rl_listen(&escape, said);
		mjr_makeContext(m, &o->drawing, mjFONTSCALE_50);
		mjr_setBuffer(mjFB_OFFSCREEN, &o->drawing);
		made = o->drawing.currentBuffer == mjFB_OFFSCREEN;
		if (!made && !said[0]) snprintf(said, RL_SAID, "no buffer to draw into");
		rl_listen(NULL, NULL);
	}
	m->vis.global.offwidth = width, m->vis.global.offheight = height, m->vis.quality.offsamples = samples;
	return made;
}

rl_mesa *rl_open_mesa(rl_view *v, mjModel *m, char *said) {
	rl_mesa *o = calloc(1, sizeof *o);
	const int want[] = {OSMESA_FORMAT, OSMESA_RGBA, OSMESA_DEPTH_BITS, 24, OSMESA_STENCIL_BITS, 8, OSMESA_PROFILE,
		OSMESA_COMPAT_PROFILE, 0};
	o->context = OSMesaCreateContextAttribs(want, NULL);
	o->upside_down = malloc((size_t)3 * v->width * v->height);
	mjr_defaultContext(&o->drawing);
	if (!o->context || !enter(o)) {
		snprintf(said, RL_SAID, "OSMesa gives no context");
		rl_close_mesa(o);
		return NULL;
	}
	int made = make(o, v, m, said);
	leave();
	if (!made) {
		rl_close_mesa(o);
		return NULL;
	}
	v->scene.flags[mjRND_SHADOW] = v->shadows;
	return o;
}

void rl_close_mesa(rl_mesa *o) {
	if (o->context && enter(o)) {
		mjr_freeContext(&o->drawing);
		leave();
	}
	if (o->context) OSMesaDestroyContext(o->context);
	free(o->upside_down);
	free(o);
}

int rl_mesa_draw(rl_mesa *o, rl_view *v, mjData *const *data, int n, const uint8_t *mask, const float *colour,
	uint8_t *rgb) {
	const mjrRect whole = {0, 0, v->width, v->height};
	const size_t row = (size_t)3 * v->width;
	jmp_buf escape;
	volatile int at = 0; /* known after a longjmp */
	if (!enter(o)) {
		snprintf(v->said, RL_SAID, "OSMesa does not take its context");
		return 0;
	}
	if (!setjmp(escape)) {
		rl_listen(&escape, v->said);
		for (int i = 0; i < n; i++) {
			if (mask && !mask[i]) continue;
			at = i;
			rl_look(v, data[i], colour ? colour + (size_t)i * 4 * v->model->ngeom : NULL);
			if (v->said[0]) break;
			mjr_render(whole, &v->scene, &o->drawing);
			mjr_readPixels(o->upside_down, NULL, whole, &o->drawing);
			for (int y = 0; y < v->height; y++)
				memcpy(rgb + ((size_t)i * v->height + y) * row, o->upside_down + (v->height - 1 - y) * row, row);
		}
		rl_listen(NULL, NULL);
	}
	leave();
	return v->said[0] ? at : n;
}
