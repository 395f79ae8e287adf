/* Prints the microseconds that one step of an exported policy takes: time STEPS, in the folder of policy.bin.
 * OBSERVED is the type of the observation, LENGTH its length, and ACTED the type of the action. */
#define _POSIX_C_SOURCE 199309L
#include "policy.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static policy_state s;
static OBSERVED observation[LENGTH];
static ACTED action[POLICY_CHUNK * POLICY_ACTIONS];

int main(int argc, char **argv)
{
	policy *p;
	struct timespec begin, end;
	int steps = argc > 1 ? atoi(argv[1]) : 1, code = policy_open(&p, "policy.bin");

	for (int i = 0; i < LENGTH; i++)
		observation[i] = (OBSERVED)(i * 37 % 256) / (OBSERVED)(sizeof *observation > 1 ? 256 : 1);
	if (code == POLICY_OK)
		code = policy_act(p, &s, observation, action);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int t = 0; code == POLICY_OK && t < steps; t++)
		code = policy_act(p, &s, observation, action);
	clock_gettime(CLOCK_MONOTONIC, &end);
	if (code != POLICY_OK) {
		fprintf(stderr, "%s\n", policy_text(code));
		return 1;
	}
	printf("%g\n", ((double)(end.tv_sec - begin.tv_sec) * 1e9 + (double)(end.tv_nsec - begin.tv_nsec)) / 1e3 / steps);
	return 0;
}
