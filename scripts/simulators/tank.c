/* tank: a pump keeps the second of two tanks at a wanted level. rlb_serve plays as many as rlinf asks for. */
#include "../../clients/c/rlb.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static double (*tanks)[3]; /* first level, second level, wanted level */

static int start(void *user, int num_envs, int child)
{
	(void)user, (void)child;
	tanks = calloc((size_t)num_envs, sizeof *tanks);
	return tanks == NULL ? -1 : 0;
}

static void show(int env, const rlb_out *out)
{
	for (int i = 0; i < 3; i++)
		((float *)out->obs[0])[i] = (float)tanks[env][i];
}

static void reset(void *user, int env, uint64_t seed, const rlb_out *out)
{
	(void)user;
	for (int i = 0; i < 3; i++) {
		seed = seed * 6364136223846793005u + 1442695040888963407u;
		tanks[env][i] = 0.2 + 0.6 * (double)(seed >> 11) / 9007199254740992.0;
	}
	show(env, out);
}

static void step(void *user, int env, const void *action, const rlb_out *out)
{
	double *t = tanks[env], flow = 0.2 * sqrt(t[0]), drain = 0.2 * sqrt(t[1]);
	(void)user;
	t[0] = fmax(t[0] + 0.1 * (1 + *(const float *)action) - flow, 0);
	t[1] = fmax(t[1] + flow - drain, 0);
	*out->reward = -(float)fabs(t[1] - t[2]);
	show(env, out);
}

int main(void)
{
	rlb_spec spec = {.name = "tank", .obs = {{.name = "levels", .kind = RLB_F32, .shape = {3}}}, .max_steps = 60,
	                 .action = {.kind = RLB_F32, .shape = {1}, .low = -1, .high = 1}};
	rlb_callbacks callbacks = {.start = start, .reset = reset, .step = step};
	if (rlb_serve(&spec, &callbacks, NULL) != 0)
		return fprintf(stderr, "tank: %s\n", rlb_error()), 1;
	return 0;
}
