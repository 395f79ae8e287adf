/* idle is a simulator that has nothing to do but to show 16 numbers, and with the argument "images" a picture of 64x64
   pixels too, filled anew in every step. With "signals" one interrupts it every 50 microseconds, as a profiler's do. */
#define _XOPEN_SOURCE 700

#include "../c/rlb.h"

#include <signal.h>
#include <string.h>
#include <sys/time.h>

enum { NUMBERS = 16, PIXELS = 64 * 64 * 3 };

static void show(const rlb_out *out, int rows)
{
	static int shade;
	shade++;
	memset(out->obs[0], 0, (size_t)rows * NUMBERS * sizeof(float));
	if (out->obs[1] != NULL)
		memset(out->obs[1], shade & 255, (size_t)rows * PIXELS);
}

static int rows;

static int start(void *user, int num_envs, int child)
{
	(void)user, (void)child;
	rows = num_envs;
	return 0;
}

static void reset(void *user, int env, uint64_t seed, const rlb_out *out)
{
	(void)user, (void)env, (void)seed;
	show(out, 1);
}

static void step_all(void *user, const uint8_t *mask, const void *action, const rlb_out *out)
{
	(void)user, (void)mask, (void)action;
	show(out, rows);
}

static void ignore(int number) { (void)number; }

static int interrupt(void)
{
	struct sigaction handled = {.sa_handler = ignore, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 50}, {0, 50}};
	return sigaction(SIGALRM, &handled, NULL) == 0 && setitimer(ITIMER_REAL, &often, NULL) == 0;
}

int main(int argc, char **argv)
{
	rlb_spec spec = {.name = "idle", .obs = {{.name = "state", .kind = RLB_F32, .shape = {NUMBERS}}},
		.action = {.kind = RLB_F32, .shape = {4}, .low = -1, .high = 1}};
	rlb_callbacks idle = {.start = start, .reset = reset, .step_all = step_all};
	if (argc > 1 && strcmp(argv[1], "images") == 0)
		spec.obs[1] = (rlb_space){.name = "image", .kind = RLB_U8, .shape = {64, 64, 3}};
	if (argc > 1 && strcmp(argv[1], "signals") == 0 && !interrupt())
		return 1;
	return rlb_serve(&spec, &idle, NULL) == 0 ? 0 : 1;
}
