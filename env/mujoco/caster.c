//go:build mujoco

/* The nearest hit of each ray is computed for a tile of pixels at a time, in loops that the compiler turns into
 * vector instructions. Every operation is IEEE's, in the order written here, so that a picture has the same bits on
 * every processor; the options below only let loops be vectors. Formulas: Glassner (ed.), An Introduction to Ray
 * Tracing, 1989, chapter 2. A convex shape is the intersection of slabs and a tube: the ray hits it where it has
 * entered all of them. Light is Lambert's: a matt surface reflects it equally in all directions. */
#pragma GCC optimize("O3", "no-trapping-math", "fp-contract=off")

#include "view.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

extern float sqrtf(float) __attribute__((const)); /* no errno, so that it can be a vector instruction */

enum { SIDE = 8, TILE = SIDE * SIDE, SHAPES = 256 };

#define INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__) && defined(__gnu_linux__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

static const float nowhere = 1e30f; /* the distance if a ray hits nothing */
static const float tiny = 1e-12f;

typedef struct {
	float x[TILE], y[TILE], z[TILE];
} vectors; /* one for each pixel of a tile */

typedef struct {
	int type;
	float size[3];
	float place[3], turn[9]; /* its frame in the world; the columns of turn are its axes */
	float eye[3];            /* the camera's position in its frame */
	float rgb[3], emission;
	float radius;            /* radius of a bounding ball; 0: it is infinite, and throws no shadow */
	int left, right, top, bottom; /* tiles that it may appear in, right and bottom exclusive */
} shape;

typedef struct {
	float to[3];   /* position of the light, or the direction to it if far */
	int far;
	int shadows;
	float ambient[3], diffuse[3];
} light;

typedef struct {
	float eye[3], forward[3], right[3], up[3]; /* right and up: steps of one pixel at depth 1 */
	float corner[3];                           /* the centre of the top left pixel, relative to the eye, at depth 1 */
	float centre[2], focal;                    /* the pixel straight ahead, pixels per unit at depth 1 */
	int shapes, lights;
	shape shape[SHAPES];
	light light[mjMAXLIGHT];
} stage;

INLINE float dot(const float *a, const float *b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

/* into rotates a direction from the world into the frame of s. */
INLINE void into(const shape *s, const float *v, float *local) {
	for (int k = 0; k < 3; k++) local[k] = s->turn[k] * v[0] + s->turn[3 + k] * v[1] + s->turn[6 + k] * v[2];
}

/* tangents widens lo and hi to the extent of a ball's picture along one axis, for its centre at a on that axis and at
 * depth z. The tangents from the eye have slopes (a z ± r √(a² + z² - r²)) / (z² - r²). */
static void tangents(float a, float z, float r, float *lo, float *hi) {
	float root = r * sqrtf(a * a + z * z - r * r), scale = 1 / (z * z - r * r);
	*lo = fminf(*lo, (a * z - root) * scale);
	*hi = fmaxf(*hi, (a * z + root) * scale);
}

static int tiles(float pixel, int last) { return pixel <= 0 ? 0 : pixel >= SIDE * last ? last : (int)(pixel / SIDE); }

/* bound finds the tiles that s may appear in: s lies in the hull of balls around its corners. */
static void bound(const stage *st, shape *s, int across, int down) {
	s->left = s->top = 0, s->right = across, s->bottom = down;
	if (s->radius == 0) return;
	int box = s->type == mjGEOM_BOX, round = s->type == mjGEOM_SPHERE || s->type == mjGEOM_ELLIPSOID;
	float r = box ? 0 : round ? s->radius : s->size[0];
	float lo[2] = {nowhere, nowhere}, hi[2] = {-nowhere, -nowhere};
	int behind = 0, corners = box ? 8 : round ? 1 : 2;
	for (int c = 0; c < corners; c++) {
		float at[3] = {0, 0, 0}, rel[3], seen[3];
		if (box) at[0] = c & 1 ? s->size[0] : -s->size[0], at[1] = c & 2 ? s->size[1] : -s->size[1];
		if (!round) at[2] = c >= corners / 2 ? s->size[2] : -s->size[2];
		for (int k = 0; k < 3; k++) rel[k] = s->place[k] + dot(s->turn + 3 * k, at) - st->eye[k];
		float wide = dot(st->right, st->right); /* right and up are as long as a pixel at depth 1 */
		seen[0] = dot(st->right, rel) / wide, seen[1] = -dot(st->up, rel) / wide, seen[2] = dot(st->forward, rel);
		float pixel = sqrtf(wide);
		behind += seen[2] < -r;
		if (seen[2] <= r + 1e-4f) {
			lo[0] = lo[1] = -nowhere, hi[0] = hi[1] = nowhere;
			continue;
		}
		for (int k = 0; k < 2; k++) tangents(seen[k] * pixel, seen[2], r, &lo[k], &hi[k]);
	}
	if (behind == corners) {
		s->right = s->bottom = 0;
		return;
	}
	s->left = tiles(st->centre[0] + st->focal * lo[0] - 1, across);
	s->right = tiles(st->centre[0] + st->focal * hi[0] + SIDE + 1, across);
	s->top = tiles(st->centre[1] + st->focal * lo[1] - 1, down);
	s->bottom = tiles(st->centre[1] + st->focal * hi[1] + SIDE + 1, down);
}

/* distant reports whether a light shines from one direction everywhere. */
static int distant(const mjvLight *l) {
#if mjVERSION_HEADER >= 333
	return l->type == mjLIGHT_DIRECTIONAL;
#else
	return l->directional;
#endif
}

/* set reads the scene's camera, lights and shapes into st. */
static int set(stage *st, rl_view *v) {
	mjvGLCamera cam = mjv_averageCamera(&v->scene.camera[0], &v->scene.camera[1]);
	float tall = (cam.frustum_top - cam.frustum_bottom) / cam.frustum_near, pixel = tall / v->height;
	st->focal = 1 / pixel;
	float ahead = cam.frustum_center / cam.frustum_near;
	float left = ahead - pixel * v->width / 2, top = cam.frustum_top / cam.frustum_near;
	st->centre[0] = -left / pixel, st->centre[1] = top / pixel;
	float aside[3];
	mjtNum f[3], u[3], r[3];
	for (int k = 0; k < 3; k++) f[k] = cam.forward[k], u[k] = cam.up[k];
	mju_cross(r, f, u);
	for (int k = 0; k < 3; k++) {
		aside[k] = r[k];
		st->eye[k] = cam.pos[k], st->forward[k] = cam.forward[k], st->right[k] = aside[k] * pixel,
			st->up[k] = cam.up[k] * pixel;
		st->corner[k] = cam.forward[k] + aside[k] * (left + pixel / 2) + cam.up[k] * (top - pixel / 2);
	}
	st->lights = v->scene.nlight;
	for (int i = 0; i < st->lights; i++) {
		const mjvLight *from = &v->scene.lights[i];
		light *l = &st->light[i];
		l->far = distant(from) || from->headlight, l->shadows = v->shadows && from->castshadow && !from->headlight;
		for (int k = 0; k < 3; k++) {
			l->to[k] = from->headlight ? -cam.forward[k] : l->far ? -from->dir[k] : from->pos[k];
			l->ambient[k] = from->ambient[k], l->diffuse[k] = from->diffuse[k];
		}
	}
	int across = (v->width + SIDE - 1) / SIDE, down = (v->height + SIDE - 1) / SIDE;
	st->shapes = 0;
	for (int i = 0; i < v->scene.ngeom; i++) {
		const mjvGeom *g = &v->scene.geoms[i];
		if (g->rgba[3] == 0) continue;
		if (st->shapes == SHAPES) {
			snprintf(v->said, RL_SAID, "more than %d shapes to draw", SHAPES);
			return 0;
		}
		shape *s = &st->shape[st->shapes++];
		s->type = g->type, s->emission = g->emission;
		memcpy(s->size, g->size, sizeof s->size);
		memcpy(s->place, g->pos, sizeof s->place);
		memcpy(s->turn, g->mat, sizeof s->turn);
		memcpy(s->rgb, g->rgba, sizeof s->rgb);
		float rel[3] = {st->eye[0] - s->place[0], st->eye[1] - s->place[1], st->eye[2] - s->place[2]};
		into(s, rel, s->eye);
		switch (s->type) {
		case mjGEOM_PLANE: s->radius = 0; break;
		case mjGEOM_SPHERE:
		case mjGEOM_ELLIPSOID: s->radius = fmaxf(s->size[0], fmaxf(s->size[1], s->size[2])); break;
		case mjGEOM_CAPSULE: s->radius = s->size[0] + s->size[2]; break;
		case mjGEOM_CYLINDER: s->radius = sqrtf(s->size[0] * s->size[0] + s->size[2] * s->size[2]); break;
		case mjGEOM_BOX: s->radius = sqrtf(dot(s->size, s->size)); break;
		default: st->shapes--; continue; /* arrows and the like; rl_casts has refused all that matters */
		}
		bound(st, s, across, down);
	}
	return 1;
}

/* The functions meet_* compute for each ray o + t d, in the frame of s, the t > 0 at which it enters s from outside,
 * or nowhere. */

INLINE void meet_plane(const shape *s, const vectors *o, const vectors *d, float *t) {
	float a = s->size[0] > 0 ? s->size[0] : nowhere, b = s->size[1] > 0 ? s->size[1] : nowhere;
	for (int i = 0; i < TILE; i++) {
		float at = -o->z[i] / (d->z[i] < -tiny ? d->z[i] : -tiny); /* from above only */
		float x = o->x[i] + at * d->x[i], y = o->y[i] + at * d->y[i];
		t[i] = (at > 0) & (fabsf(x) <= a) & (fabsf(y) <= b) & (d->z[i] < -tiny) ? at : nowhere;
	}
}

INLINE void meet_ellipsoid(const shape *s, const vectors *o, const vectors *d, float *t) {
	float a = 1 / s->size[0], b = 1 / s->size[1], c = 1 / s->size[2];
	for (int i = 0; i < TILE; i++) {
		float ox = o->x[i] * a, oy = o->y[i] * b, oz = o->z[i] * c, dx = d->x[i] * a, dy = d->y[i] * b,
			dz = d->z[i] * c;
		float A = dx * dx + dy * dy + dz * dz, B = ox * dx + oy * dy + oz * dz, C = ox * ox + oy * oy + oz * oz - 1;
		float q = B * B - A * C, at = (-B - sqrtf(q > 0 ? q : 0)) / A;
		t[i] = (q >= 0) & (at > 0) ? at : nowhere;
	}
}

/* A ray hits a capsule on its tube, or, beyond an end of the tube, on the ball at that end: a ray that misses the
 * tube misses the capsule. */
INLINE void meet_capsule(const shape *s, const vectors *o, const vectors *d, float *t) {
	float r = s->size[0], h = s->size[2];
	for (int i = 0; i < TILE; i++) {
		float ox = o->x[i], oy = o->y[i], oz = o->z[i], dx = d->x[i], dy = d->y[i], dz = d->z[i];
		float a = dx * dx + dy * dy, A = a > tiny ? a : tiny, B = ox * dx + oy * dy, C = ox * ox + oy * oy - r * r;
		float q = B * B - A * C, tube = (-B - sqrtf(q > 0 ? q : 0)) / A;
		float z = oz + tube * dz, end = z > 0 ? h : -h, e = oz - end;
		float bA = a + dz * dz, bB = B + e * dz, bC = C + e * e, bq = bB * bB - bA * bC;
		float ball = (-bB - sqrtf(bq > 0 ? bq : 0)) / bA;
		float at = fabsf(z) <= h ? tube : bq >= 0 ? ball : nowhere;
		t[i] = (q >= 0) & (at > 0) ? at : nowhere;
	}
}

/* SLAB narrows [in, out] to the t with |o + t d| ≤ s. */
#define SLAB(o, d, s)                                                     \
	{                                                                     \
		float inverse = 1 / (fabsf(d) < tiny ? tiny : (d));               \
		float one = (-(s) - (o)) * inverse, two = ((s) - (o)) * inverse;  \
		float first = one < two ? one : two, last = one < two ? two : one; \
		in = in > first ? in : first, out = out < last ? out : last;      \
	}

INLINE void meet_cylinder(const shape *s, const vectors *o, const vectors *d, float *t) {
	float r = s->size[0], h = s->size[2];
	for (int i = 0; i < TILE; i++) {
		float ox = o->x[i], oy = o->y[i], dx = d->x[i], dy = d->y[i];
		float a = dx * dx + dy * dy, A = a > tiny ? a : tiny, B = ox * dx + oy * dy, C = ox * ox + oy * oy - r * r;
		float q = B * B - A * C, root = sqrtf(q > 0 ? q : 0);
		float in = (-B - root) / A, out = (-B + root) / A;
		SLAB(o->z[i], d->z[i], h)
		t[i] = (q >= 0) & (in > 0) & (in <= out) ? in : nowhere;
	}
}

INLINE void meet_box(const shape *s, const vectors *o, const vectors *d, float *t) {
	for (int i = 0; i < TILE; i++) {
		float in = -nowhere, out = nowhere;
		SLAB(o->x[i], d->x[i], s->size[0])
		SLAB(o->y[i], d->y[i], s->size[1])
		SLAB(o->z[i], d->z[i], s->size[2])
		t[i] = (in > 0) & (in <= out) ? in : nowhere;
	}
}

INLINE void meet(const shape *s, const vectors *o, const vectors *d, float *t) {
	switch (s->type) {
	case mjGEOM_PLANE: meet_plane(s, o, d, t); return;
	case mjGEOM_SPHERE:
	case mjGEOM_ELLIPSOID: meet_ellipsoid(s, o, d, t); return;
	case mjGEOM_CAPSULE: meet_capsule(s, o, d, t); return;
	case mjGEOM_CYLINDER: meet_cylinder(s, o, d, t); return;
	case mjGEOM_BOX: meet_box(s, o, d, t); return;
	}
}

/* face computes the normals n of the surface of s at its points p, both in its frame; their length need not be 1. */
INLINE void face(const shape *s, const vectors *p, vectors *n) {
	float r = s->size[0], h = s->size[2];
	switch (s->type) {
	case mjGEOM_PLANE:
		for (int i = 0; i < TILE; i++) n->x[i] = n->y[i] = 0, n->z[i] = 1;
		return;
	case mjGEOM_SPHERE:
	case mjGEOM_ELLIPSOID:
		for (int i = 0; i < TILE; i++) {
			n->x[i] = p->x[i] / (s->size[0] * s->size[0]);
			n->y[i] = p->y[i] / (s->size[1] * s->size[1]);
			n->z[i] = p->z[i] / (s->size[2] * s->size[2]);
		}
		return;
	case mjGEOM_CAPSULE:
		for (int i = 0; i < TILE; i++) {
			float z = p->z[i], near = z < -h ? -h : z > h ? h : z;
			n->x[i] = p->x[i], n->y[i] = p->y[i], n->z[i] = z - near;
		}
		return;
	case mjGEOM_CYLINDER:
		for (int i = 0; i < TILE; i++) {
			int end = fabsf(p->z[i]) - h > sqrtf(p->x[i] * p->x[i] + p->y[i] * p->y[i]) - r;
			n->x[i] = end ? 0 : p->x[i], n->y[i] = end ? 0 : p->y[i], n->z[i] = end ? p->z[i] : 0;
		}
		return;
	case mjGEOM_BOX:
		for (int i = 0; i < TILE; i++) {
			float x = fabsf(p->x[i]) - s->size[0], y = fabsf(p->y[i]) - s->size[1], z = fabsf(p->z[i]) - s->size[2];
			int onx = (x >= y) & (x >= z), ony = !onx & (y >= z);
			n->x[i] = onx ? p->x[i] : 0, n->y[i] = ony ? p->y[i] : 0, n->z[i] = onx | ony ? 0 : p->z[i];
		}
		return;
	}
}

/* local rotates directions from the world into the frame of s. */
INLINE void local(const shape *s, const vectors *v, vectors *l) {
	for (int i = 0; i < TILE; i++) {
		float x = v->x[i], y = v->y[i], z = v->z[i];
		l->x[i] = s->turn[0] * x + s->turn[3] * y + s->turn[6] * z;
		l->y[i] = s->turn[1] * x + s->turn[4] * y + s->turn[7] * z;
		l->z[i] = s->turn[2] * x + s->turn[5] * y + s->turn[8] * z;
	}
}

/* The state of the pixels of a tile. */
typedef struct {
	vectors ray;         /* from the eye, with depth 1 */
	float depth[TILE];
	int32_t which[TILE]; /* the visible shape; -1: none */
	vectors point, normal; /* in the world; normals have length 1 */
	vectors colour, lit;   /* of the surface, and of the light on it: red, green, blue */
	float emission[TILE];
} pixels;

/* see finds the nearest shape behind each pixel. */
INLINE void see(const stage *st, int column, int row, pixels *p) {
	for (int i = 0; i < TILE; i++) {
		float x = column * SIDE + i % SIDE, y = row * SIDE + i / SIDE;
		p->ray.x[i] = st->corner[0] + x * st->right[0] - y * st->up[0];
		p->ray.y[i] = st->corner[1] + x * st->right[1] - y * st->up[1];
		p->ray.z[i] = st->corner[2] + x * st->right[2] - y * st->up[2];
		p->depth[i] = nowhere, p->which[i] = -1;
	}
	for (int k = 0; k < st->shapes; k++) {
		const shape *s = &st->shape[k];
		if (column < s->left || column >= s->right || row < s->top || row >= s->bottom) continue;
		vectors o, d;
		float t[TILE];
		for (int i = 0; i < TILE; i++) o.x[i] = s->eye[0], o.y[i] = s->eye[1], o.z[i] = s->eye[2];
		local(s, &p->ray, &d);
		meet(s, &o, &d, t);
		for (int i = 0; i < TILE; i++) {
			int nearer = t[i] < p->depth[i];
			p->which[i] = nearer ? k : p->which[i];
			p->depth[i] = nearer ? t[i] : p->depth[i];
		}
	}
}

/* check computes the brightness of a plane's chequers: dark and light squares of 1 m, which fade to their mean where
 * they are smaller than two pixels. */
INLINE void check(const stage *st, const pixels *p, const vectors *at, float *bright) {
	for (int i = 0; i < TILE; i++) {
		float x = at->x[i] * 0.5f, y = at->y[i] * 0.5f;
		int odd = (x - floorf(x) < 0.5f) ^ (y - floorf(y) < 0.5f);
		float wide = 2 * p->depth[i] / st->focal, sharp = wide > 1 ? 0 : 1 - wide;
		bright[i] = 0.9f + (odd ? 0.1f : -0.1f) * sharp;
	}
}

/* surface computes the visible points, their normals and their colours. */
INLINE void surface(const stage *st, pixels *p) {
	memset(&p->point, 0, sizeof p->point);
	memset(&p->normal, 0, sizeof p->normal);
	for (int k = 0; k < st->shapes; k++) {
		const shape *s = &st->shape[k];
		int seen = 0;
		for (int i = 0; i < TILE; i++) seen |= p->which[i] == k;
		if (!seen) continue;
		vectors at, n;
		float bright[TILE];
		local(s, &p->ray, &at);
		for (int i = 0; i < TILE; i++) {
			at.x[i] = s->eye[0] + p->depth[i] * at.x[i], at.y[i] = s->eye[1] + p->depth[i] * at.y[i],
				at.z[i] = s->eye[2] + p->depth[i] * at.z[i];
			bright[i] = 1;
		}
		face(s, &at, &n);
		if (s->type == mjGEOM_PLANE) check(st, p, &at, bright);
		for (int i = 0; i < TILE; i++) {
			int here = p->which[i] == k;
			float x = n.x[i], y = n.y[i], z = n.z[i], scale = 1 / sqrtf(x * x + y * y + z * z);
			float wx = s->turn[0] * x + s->turn[1] * y + s->turn[2] * z;
			float wy = s->turn[3] * x + s->turn[4] * y + s->turn[5] * z;
			float wz = s->turn[6] * x + s->turn[7] * y + s->turn[8] * z;
			p->normal.x[i] = here ? wx * scale : p->normal.x[i];
			p->normal.y[i] = here ? wy * scale : p->normal.y[i];
			p->normal.z[i] = here ? wz * scale : p->normal.z[i];
			p->colour.x[i] = here ? s->rgb[0] * bright[i] : p->colour.x[i];
			p->colour.y[i] = here ? s->rgb[1] * bright[i] : p->colour.y[i];
			p->colour.z[i] = here ? s->rgb[2] * bright[i] : p->colour.z[i];
			p->emission[i] = here ? s->emission : p->emission[i];
		}
	}
	for (int i = 0; i < TILE; i++) {
		float t = p->which[i] < 0 ? 0 : p->depth[i];
		p->point.x[i] = st->eye[0] + t * p->ray.x[i];
		p->point.y[i] = st->eye[1] + t * p->ray.y[i];
		p->point.z[i] = st->eye[2] + t * p->ray.z[i];
	}
}

/* hides reports whether s may block light l for some point within reach of centre. */
INLINE int hides(const shape *s, const light *l, const float *centre, float reach) {
	float to[3], rel[3], far = reach + s->radius;
	for (int k = 0; k < 3; k++) to[k] = l->far ? l->to[k] : l->to[k] - centre[k], rel[k] = s->place[k] - centre[k];
	float along = dot(rel, to), length = dot(to, to);
	float t = along <= 0 ? 0 : along / length; /* the nearest point on the line to the light */
	if (!l->far && t > 1) t = 1;
	for (int k = 0; k < 3; k++) rel[k] -= t * to[k];
	return dot(rel, rel) <= far * far;
}

/* shade reduces open[i], the part of light l that reaches a point, where shapes block it: 0 in shadow. to are the
   vectors to the light. */
INLINE void shade(const stage *st, const light *l, const pixels *p, const vectors *to, float *open) {
	float lo[3] = {nowhere, nowhere, nowhere}, hi[3] = {-nowhere, -nowhere, -nowhere}, centre[3], reach = 0;
	for (int i = 0; i < TILE; i++) {
		float x = p->point.x[i], y = p->point.y[i], z = p->point.z[i];
		int counts = open[i] > 0;
		lo[0] = counts & (x < lo[0]) ? x : lo[0], hi[0] = counts & (x > hi[0]) ? x : hi[0];
		lo[1] = counts & (y < lo[1]) ? y : lo[1], hi[1] = counts & (y > hi[1]) ? y : hi[1];
		lo[2] = counts & (z < lo[2]) ? z : lo[2], hi[2] = counts & (z > hi[2]) ? z : hi[2];
	}
	if (lo[0] > hi[0]) return; /* no point gets light */
	for (int k = 0; k < 3; k++) centre[k] = (lo[k] + hi[k]) / 2, reach += (hi[k] - lo[k]) * (hi[k] - lo[k]) / 4;
	reach = sqrtf(reach);
	for (int k = 0; k < st->shapes; k++) {
		const shape *s = &st->shape[k];
		if (s->radius == 0 || !hides(s, l, centre, reach)) continue;
		vectors o, d;
		float t[TILE];
		for (int i = 0; i < TILE; i++)
			o.x[i] = p->point.x[i] - s->place[0], o.y[i] = p->point.y[i] - s->place[1],
			o.z[i] = p->point.z[i] - s->place[2];
		local(s, &o, &o);
		local(s, to, &d);
		meet(s, &o, &d, t);
		float end = l->far ? nowhere : 1;
		for (int i = 0; i < TILE; i++) open[i] = (t[i] < end) & (p->which[i] != k) ? 0 : open[i];
	}
}

/* shine adds up the light on each point. */
INLINE void shine(const stage *st, pixels *p) {
	for (int i = 0; i < TILE; i++) p->lit.x[i] = p->lit.y[i] = p->lit.z[i] = p->emission[i];
	for (int k = 0; k < st->lights; k++) {
		const light *l = &st->light[k];
		vectors to;
		float open[TILE];
		for (int i = 0; i < TILE; i++) {
			float x = l->far ? l->to[0] : l->to[0] - p->point.x[i];
			float y = l->far ? l->to[1] : l->to[1] - p->point.y[i];
			float z = l->far ? l->to[2] : l->to[2] - p->point.z[i];
			float cosine = (x * p->normal.x[i] + y * p->normal.y[i] + z * p->normal.z[i]) /
				sqrtf(x * x + y * y + z * z + tiny);
			open[i] = (cosine > 0) & (p->which[i] >= 0) ? cosine : 0;
			to.x[i] = x, to.y[i] = y, to.z[i] = z;
		}
		if (l->shadows) shade(st, l, p, &to, open);
		for (int i = 0; i < TILE; i++) {
			p->lit.x[i] += l->ambient[0] + l->diffuse[0] * open[i];
			p->lit.y[i] += l->ambient[1] + l->diffuse[1] * open[i];
			p->lit.z[i] += l->ambient[2] + l->diffuse[2] * open[i];
		}
	}
}

static const float sky[3] = {0.45f, 0.55f, 0.65f}; /* the colour where no shape is */

INLINE uint8_t level(float x) { return (int)(255 * (x < 1 ? x : 1) + 0.5f); }

/* paint writes the pixels of a tile that are in the picture. */
INLINE void paint(const pixels *p, const rl_view *v, int column, int row, uint8_t *rgb) {
	uint8_t red[TILE], green[TILE], blue[TILE];
	for (int i = 0; i < TILE; i++) {
		int empty = p->which[i] < 0;
		red[i] = level(empty ? sky[0] : p->colour.x[i] * p->lit.x[i]);
		green[i] = level(empty ? sky[1] : p->colour.y[i] * p->lit.y[i]);
		blue[i] = level(empty ? sky[2] : p->colour.z[i] * p->lit.z[i]);
	}
	for (int i = 0; i < TILE; i++) {
		int x = column * SIDE + i % SIDE, y = row * SIDE + i / SIDE;
		if (x >= v->width || y >= v->height) continue;
		uint8_t *to = rgb + 3 * ((size_t)y * v->width + x);
		to[0] = red[i], to[1] = green[i], to[2] = blue[i];
	}
}

/* draw draws the shapes of st. */
FOR_EACH_PROCESSOR static void draw(const stage *st, const rl_view *v, uint8_t *rgb) {
	pixels p;
	memset(&p, 0, sizeof p);
	for (int row = 0; row * SIDE < v->height; row++)
		for (int column = 0; column * SIDE < v->width; column++) {
			see(st, column, row, &p);
			surface(st, &p);
			shine(st, &p);
			paint(&p, v, column, row, rgb);
		}
}

int rl_casts(const mjModel *m, char *said) {
	for (int i = 0; i < m->ngeom; i++) {
		int type = m->geom_type[i];
		if (m->geom_group[i] < 3 && m->geom_rgba[4 * i + 3] != 0 && (type == mjGEOM_MESH || type == mjGEOM_HFIELD)) {
			snprintf(said, RL_SAID, "geom %d (%s) is a %s", i, m->names + m->name_geomadr[i],
				type == mjGEOM_MESH ? "mesh" : "height field");
			return 0;
		}
	}
	return 1;
}

int rl_cast(rl_view *v, mjData *const *data, int n, const uint8_t *mask, const float *colour, uint8_t *rgb) {
	stage st;
	jmp_buf escape;
	volatile int at = 0; /* volatile: read after a longjmp */
	if (setjmp(escape)) return at;
	rl_listen(&escape, v->said);
	for (int i = 0; i < n; i++) {
		if (mask && !mask[i]) continue;
		at = i;
		rl_look(v, data[i], colour ? colour + (size_t)i * 4 * v->model->ngeom : NULL);
		if (v->said[0] || !set(&st, v)) break;
		draw(&st, v, rgb + (size_t)i * 3 * v->width * v->height);
		at = i + 1;
	}
	rl_listen(NULL, NULL);
	return v->said[0] ? at : n;
}
