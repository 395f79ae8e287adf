/* served is a simulator that counts. The observation is the count, from the seed on, and the action. An episode
 * terminates at a count of 1000. The argument is the kind of the numbers, f32 or f64. With "all" after it, one call
 * steps all environments, and states are longer than a pipe holds. */
#include "../c/rlb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
	int64_t count;
	double action[2];
} counter;

typedef struct {
	int n, f64;
	size_t padding; /* bytes of a state before the counter */
	counter *of;
} counters;

static void show(const counters *c, int env, const rlb_out *out, int row)
{
	const counter *k = &c->of[env];
	double seen[3] = {(double)k->count, k->action[0], k->action[1]};
	for (int i = 0; i < 3; i++) {
		if (c->f64)
			((double *)out->obs[0])[3 * row + i] = seen[i];
		else
			((float *)out->obs[0])[3 * row + i] = (float)seen[i];
	}
	for (int i = 0; i < 12; i++)
		((uint8_t *)out->obs[1])[12 * row + i] = (uint8_t)(k->count + i);
}

static void advance(counters *c, int env, const void *action, const rlb_out *out, int row)
{
	counter *k = &c->of[env];
	k->count++;
	for (int i = 0; i < 2; i++) {
		k->action[i] = c->f64 ? ((const double *)action)[i] : ((const float *)action)[i];
		if (k->action[i] < -1 || k->action[i] > (c->f64 ? 1.7 : (double)1.7f))
			k->count = -1000; /* beyond the bounds */
	}
	show(c, env, out, row);
	out->reward[row] = (float)(k->action[0] - k->action[1]);
	out->terminated[row] = k->count == 1000;
	out->info[row] = (float)k->count / 2;
}

static int start(void *user, int num_envs, int child)
{
	counters *c = (counters *)user;
	(void)child;
	c->n = num_envs;
	c->of = (counter *)calloc((size_t)num_envs, sizeof *c->of);
	return c->of != NULL && num_envs != 13 ? 0 : -1;
}

static void reset(void *user, int env, uint64_t seed, const rlb_out *out)
{
	counters *c = (counters *)user;
	c->of[env] = (counter){(int64_t)(seed % 1000), {0, 0}};
	show(c, env, out, 0);
}

static void step(void *user, int env, const void *action, const rlb_out *out) {
	advance((counters *)user, env, action, out, 0);
}

static void step_all(void *user, const uint8_t *mask, const void *action, const rlb_out *out)
{
	counters *c = (counters *)user;
	for (int e = 0; e < c->n; e++)
		if (mask[e])
			advance(c, e, (const char *)action + (size_t)e * 2 * (c->f64 ? 8 : 4), out, e);
}

static void save(void *user, int env, void *state)
{
	const counters *c = (const counters *)user;
	memset(state, 'x', c->padding);
	memcpy((char *)state + c->padding, &c->of[env], sizeof(counter));
}

static void load(void *user, int env, const void *state, const rlb_out *out)
{
	counters *c = (counters *)user;
	memcpy(&c->of[env], (const char *)state + c->padding, sizeof(counter));
	for (size_t i = 0; i < c->padding; i++)
		if (((const char *)state)[i] != 'x')
			c->of[env].count = -1;
	show(c, env, out, 0);
}

static void render(void *user, int env, int width, int height, uint8_t *rgb)
{
	memset(rgb, (int)((counters *)user)->of[env].count & 255, (size_t)width * (size_t)height * 3);
}

/* expert answers with numbers of what is seen, the second beyond the bounds for counts above 170. */
static void expert(void *user, int env, const rlb_out *now, void *action)
{
	const counters *c = (const counters *)user;
	double count = c->f64 ? ((const double *)now->obs[0])[0] : (double)((const float *)now->obs[0])[0];
	double does[2] = {c->of[env].count % 2 == 0 ? 1 : -1, count / 100};
	for (int i = 0; i < 2; i++) {
		if (c->f64)
			((double *)action)[i] = does[i];
		else
			((float *)action)[i] = (float)does[i];
	}
}

int main(int argc, char **argv)
{
	counters c = {0, argc > 1 && strcmp(argv[1], "f64") == 0, argc > 2 ? 1 << 17 : 0, NULL};
	int kind = c.f64 ? RLB_F64 : RLB_F32;
	rlb_spec spec = {.name = "served \"counters\"",
	                 .obs = {{.name = "state", .kind = kind, .shape = {3}},
	                         {.name = "image", .kind = RLB_U8, .shape = {2, 2, 3}}},
	                 .action = {.kind = kind, .shape = {2}, .low = -1, .high = 1.7}, .info = {"half"}, .max_steps = 5,
	                 .state_size = c.padding + sizeof(counter)};
	rlb_callbacks functions = {.start = start, .reset = reset, .step = step, .save = save, .load = load,
		.render = render, .expert = expert};
	if (argc > 2)
		functions.step_all = step_all;
	if (argc > 1 && strcmp(argv[1], "goal") == 0) {
		spec.goal_reward = "sparse";
		spec.goal_threshold = 0.05;
		spec.goal_terminates = 1;
	}
	int rc = rlb_serve(&spec, &functions, &c);
	if (rlb_error() != NULL)
		fprintf(stderr, "served: %s\n", rlb_error());
	free(c.of);
	return rc != 0;
}
