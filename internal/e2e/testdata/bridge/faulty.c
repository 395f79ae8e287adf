/* A solver in rlinf's MPI job that is at fault in its tenth step, as its argument says: it hangs, or its reward is no
 * number. */
#include "rlb_mpi.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	rlb_spec spec = {.name = "faulty", .obs = {{.name = "state", .kind = RLB_F32, .shape = {1}}},
	                 .action = {.kind = RLB_F32, .shape = {1}}, .num_envs = 1, .max_steps = 1000};
	float state = 0, action;
	rlb_mpi m;
	MPI_Init(&argc, &argv);
	for (int steps = 0, going = rlb_mpi_open(&spec, &m); going >= 0;) {
		rlb_mpi_seed(&m);
		rlb_mpi_send_init(&m, &state);
		while ((going = rlb_mpi_recv_action(&m, &action)) == 1) {
			int now = ++steps == 10;
			if (now && strcmp(argv[1], "hang") == 0)
				sleep(1000);
			rlb_mpi_send_state(&m, &state, now ? NAN : 1);
		}
	}
	rlb_mpi_close(&m);
	MPI_Finalize();
	return 0;
}
