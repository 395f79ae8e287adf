/* drift.py in C. */
#include "rlb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
	uint64_t drift;
	double x, born;
	int t;
} state;

/* draw returns a number between -1 and 1. */
static double draw(state *s)
{
	s->drift = s->drift * 6364136223846793005u + 1442695040888963407u;
	return (double)(s->drift >> 40) / (1 << 23) - 1;
}

static int start(void *user, int num_envs, int child)
{
	(void)child;
	return (*(state **)user = calloc((size_t)num_envs, sizeof(state))) ? 0 : -1;
}

static void reset(void *user, int env, uint64_t seed, const rlb_out *out)
{
	state *s = *(state **)user + env;
	*s = (state){.drift = seed};
	draw(s);
	*(double *)out->obs[0] = s->x = s->born = draw(s);
}

static void step(void *user, int env, const void *action, const rlb_out *out)
{
	state *s = *(state **)user + env;
	s->t++;
	s->x += 0.5 * *(const double *)action + 0.5 * draw(s);
	*(double *)out->obs[0] = s->x;
	*out->reward = (float)(-s->x * s->x);
	*out->terminated = s->t == 4;
	out->info[0] = (float)s->t;
	out->info[1] = s->t == 4;
	out->info[2] = (float)s->born;
}

static void save(void *user, int env, void *bytes) { memcpy(bytes, *(state **)user + env, sizeof(state)); }

static void load(void *user, int env, const void *bytes, const rlb_out *out)
{
	state *s = *(state **)user + env;
	memcpy(s, bytes, sizeof(state));
	*(double *)out->obs[0] = s->x;
}

static void render(void *user, int env, int width, int height, uint8_t *rgb)
{
	const state *s = *(state **)user + env;
	double blue = 128 + 40 * s->x;
	memset(rgb, 0, (size_t)width * (size_t)height * 3);
	for (int i = 0; i < width * height; i++)
		if (i < width * height / 2)
			rgb[3 * i] = (uint8_t)(60 * s->t);
		else
			rgb[3 * i + 2] = (uint8_t)(blue < 0 ? 0 : blue > 255 ? 255 : blue);
}

int main(int argc, char **argv)
{
	state *envs = NULL;
	int bare = argc > 1 && strcmp(argv[1], "bare") == 0, pair = argc > 1 && strcmp(argv[1], "pair") == 0;
	rlb_spec spec = {.name = "drift", .obs = {{.name = "state", .kind = RLB_F64, .shape = {1}}},
	                 .action = {.kind = RLB_F64, .shape = {1}, .low = -1, .high = 1}, .info = {"step", "last", "born"},
	                 .num_envs = pair ? 2 : 0,
	                 .state_size = bare ? 0 : sizeof(state)};
	rlb_callbacks functions = {.start = start, .reset = reset, .step = step};
	if (!bare) {
		functions.save = save;
		functions.load = load;
		functions.render = render;
	}
	int rc = rlb_serve(&spec, &functions, &envs);
	if (rlb_error())
		fprintf(stderr, "drift: %s\n", rlb_error());
	free(envs);
	return rc != 0;
}
