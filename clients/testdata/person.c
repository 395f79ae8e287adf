/* person is an arm whose position is the sum of the actions. A person acts in every second step, the second number
 * beyond its bounds. With the argument "loop" the program owns its loop, else it is served. */
#include "../c/rlb.h"

#include <stdio.h>
#include <string.h>

typedef struct {
	double x[2];
	int t;
} arm;

/* move takes a step, and returns what the person did in place of action, or NULL. */
static const double *move(arm *a, const double *action)
{
	static double does[2];
	const double *taken = NULL;
	if (++a->t % 2 == 0) {
		does[0] = -0.5;
		does[1] = a->t;
		taken = does;
	}
	for (int i = 0; i < 2; i++)
		a->x[i] += taken != NULL ? taken[i] : action[i];
	return taken;
}

static void reset(void *user, int env, uint64_t seed, const rlb_out *out)
{
	arm *a = (arm *)user + env;
	(void)seed;
	memset(a, 0, sizeof *a);
	memcpy(out->obs[0], a->x, sizeof a->x);
}

static void step(void *user, int env, const void *action, const rlb_out *out)
{
	arm *a = (arm *)user + env;
	const double *taken = move(a, (const double *)action);
	if (taken != NULL) {
		out->intervened[0] = 1;
		for (int i = 0; i < 2; i++)
			((float *)out->taken)[i] = (float)taken[i];
	}
	memcpy(out->obs[0], a->x, sizeof a->x);
	out->terminated[0] = a->t == 4;
}

static void loop(const rlb_spec *spec)
{
	double action[2];
	rlb *r = rlb_open(spec);
	for (int going = r != NULL ? 0 : -1; going >= 0;) {
		arm a = {{0, 0}, 0};
		rlb_send_init(r, a.x);
		while ((going = rlb_recv_action(r, action)) == 1) {
			const double *taken = move(&a, action);
			if (taken != NULL)
				rlb_intervened(r, taken);
			rlb_send_last(r, a.x, 0, a.t == 4 ? RLB_TERMINATED : 0);
		}
	}
	rlb_close(r);
}

int main(int argc, char **argv)
{
	static arm arms[16];
	rlb_spec spec = {.name = "arm", .obs = {{.name = "state", .kind = RLB_F64, .shape = {2}}}, .intervene = 1,
	                 .action = {.kind = RLB_F64, .shape = {2}, .low = -1, .high = 1}};
	rlb_callbacks functions = {.reset = reset, .step = step};
	if (argc > 1 && strcmp(argv[1], "loop") == 0)
		loop(&spec);
	else
		rlb_serve(&spec, &functions, arms);
	if (rlb_error() != NULL)
		fprintf(stderr, "person: %s\n", rlb_error());
	return rlb_error() != NULL;
}
