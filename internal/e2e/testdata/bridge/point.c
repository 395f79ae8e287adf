/* A point on a line that is to be pushed to 0, in a loop of the solver's own: by pipes and sockets, or, compiled with
 * MPI, as a program of rlinf's job. With the argument "served" it is rlinf that calls. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_MPI
#include "rlb_mpi.h"
#define CALL(name, ...) rlb_mpi_##name(&m, ##__VA_ARGS__)
#else
#include "rlb.h"
#define CALL(name, ...) rlb_##name(m, ##__VA_ARGS__)
#endif

static void begin(double *state, uint64_t seed)
{
	seed &= 0xfffff;
	state[0] = (double)(seed % 1001) / 500 - 1;
	state[1] = (double)(seed / 1001 % 1001) / 500 - 1;
}

/* advance returns the reward, and how far from 0 the point is then, squared. */
static double advance(double *state, double push, double *far)
{
	push = push < -1 ? -1 : push > 1 ? 1 : push;
	state[1] += 0.2 * push;
	state[0] += 0.2 * state[1];
	*far = state[0] * state[0];
	return -*far - 0.1 * state[1] * state[1] - (*far > 9 ? 10 : 0);
}

static double (*points)[2];

static int start(void *user, int num_envs, int child)
{
	(void)user, (void)child;
	points = calloc((size_t)num_envs, sizeof *points);
	return points ? 0 : -1;
}

static void reset(void *user, int env, uint64_t seed, const rlb_out *out)
{
	(void)user;
	begin(points[env], seed);
	memcpy(out->obs[0], points[env], sizeof *points);
}

static void step(void *user, int env, const void *action, const rlb_out *out)
{
	double far;
	(void)user;
	*out->reward = (float)advance(points[env], *(const double *)action, &far);
	*out->terminated = far > 9;
	out->info[0] = far < 0.01;
	memcpy(out->obs[0], points[env], sizeof *points);
}

int main(int argc, char **argv)
{
	rlb_spec spec = {.name = "point", .obs = {{.name = "state", .kind = RLB_F64, .shape = {2}}},
	                 .action = {.kind = RLB_F64, .shape = {1}, .low = -1, .high = 1}, .max_steps = 40,
	                 .info = {"success"}};
	double state[2], push, far;
	if (argc > 1 && strcmp(argv[1], "served") == 0)
		return rlb_serve(&spec, &(rlb_callbacks){.start = start, .reset = reset, .step = step}, NULL) != 0;
	spec.num_envs = 1;
#ifdef WITH_MPI
	rlb_mpi m;
	MPI_Init(&argc, &argv);
	int going = rlb_mpi_open(&spec, &m);
	rlb *root = m.root;
#else
	rlb *m = rlb_open(&spec), *root = m;
	int going = m ? 0 : -1;
#endif
	while (going >= 0) {
		begin(state, CALL(seed));
		CALL(send_init, state);
		while ((going = CALL(recv_action, &push)) == 1) {
			double reward = advance(state, push, &far);
			if (root)
				rlb_info(root, 0, far < 0.01);
			if (far > 9)
				CALL(send_last, state, reward, RLB_TERMINATED);
			else
				CALL(send_state, state, reward);
		}
	}
	if (rlb_error())
		fprintf(stderr, "point: %s\n", rlb_error());
	CALL(close);
#ifdef WITH_MPI
	MPI_Finalize();
#endif
	return 0;
}
