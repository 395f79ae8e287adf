/* A point on a line that is to be pushed to 0, in a loop of the solver's own: by pipes and sockets, or, compiled with MPI, as a program of rlinf's job. */
#include <stdio.h>

#ifdef WITH_MPI
#include "rlb_mpi.h"
#define CALL(name, ...) rlb_mpi_##name(&m, ##__VA_ARGS__)
#else
#include "rlb.h"
#define CALL(name, ...) rlb_##name(m, ##__VA_ARGS__)
#endif

int main(int argc, char **argv)
{
	rlb_spec spec = {.name = "point", .obs = {{.name = "state", .kind = RLB_F64, .shape = {2}}},
	                 .action = {.kind = RLB_F64, .shape = {1}, .low = -1, .high = 1}, .num_envs = 1, .max_steps = 40, .info = {"success"}};
	double state[2], push;
#ifdef WITH_MPI
	rlb_mpi m;
	MPI_Init(&argc, &argv);
	int going = rlb_mpi_open(&spec, &m);
	rlb *root = m.root;
#else
	(void)argc, (void)argv;
	rlb *m = rlb_open(&spec), *root = m;
	int going = m ? 0 : -1;
#endif
	while (going >= 0) {
		uint64_t seed = CALL(seed);
		state[0] = (double)(seed % 2001) / 1000 - 1;
		state[1] = (double)(seed / 2001 % 2001) / 1000 - 1;
		CALL(send_init, state);
		while ((going = CALL(recv_action, &push)) == 1) {
			push = push < -1 ? -1 : push > 1 ? 1 : push;
			state[1] += 0.2 * push;
			state[0] += 0.2 * state[1];
			double far = state[0] * state[0], reward = -far - 0.1 * state[1] * state[1];
			if (root)
				rlb_info(root, 0, far < 0.01);
			if (far > 9)
				CALL(send_last, state, reward - 10, RLB_TERMINATED);
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
