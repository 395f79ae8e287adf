/* loop is a solver that owns its loop and counts like served.c. Its action has two choices. The first ends the episode:
 * 1 terminated, 2 truncated, 3 both; 0 continues. The second determines the reward. */
#include "../c/rlb.h"

#include <stdio.h>

/* expert goes on, and chooses the last digit of the count. */
static void expert(void *user, void *const *now, void *action)
{
	(void)user;
	((int32_t *)action)[0] = 0;
	((int32_t *)action)[1] = (int32_t)((const double *)now[0])[0] % 10;
}

int main(void)
{
	static const int choices[2] = {4, 10}, parities[1] = {2};
	rlb_spec spec = {.name = "loop",
	                 .obs = {{.name = "state", .kind = RLB_F64, .shape = {2}},
	                         {.name = "parity", .kind = RLB_MULTI_DISCRETE, .shape = {1}, .nvec = parities}},
	                 .action = {.kind = RLB_MULTI_DISCRETE, .shape = {2}, .nvec = choices}, .info = {"tenth"},
	                 .expert = expert};
	double state[2];
	int32_t action[2];
	rlb *r = rlb_open(&spec);
	for (int going = r != NULL ? 0 : -1; going >= 0;) {
		state[0] = (double)(rlb_seed(r) % 1000);
		state[1] = 0;
		int32_t parity = (int32_t)state[0] % 2;
		rlb_obs(r, 0, state);
		rlb_obs(r, 1, &parity);
		rlb_send_init(r, NULL);
		while ((going = rlb_recv_action(r, action)) == 1) {
			state[0]++;
			state[1] = action[1];
			parity = (int32_t)state[0] % 2;
			rlb_obs(r, 1, &parity);
			rlb_info(r, 0, state[0] / 10);
			if (action[0] != 0)
				rlb_send_last(r, state, action[1] * 0.5, action[0]);
			else
				rlb_send_state(r, state, action[1] * 0.5);
		}
	}
	int failed = rlb_error() != NULL;
	if (failed)
		fprintf(stderr, "loop: %s\n", rlb_error());
	rlb_close(r);
	return failed;
}
