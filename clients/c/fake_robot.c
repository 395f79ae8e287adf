/* fake_robot is a hand that follows velocities on a table, with a camera, a clock and a scripted person: a robot to try
 * without hardware. clients/python/rlb/fake_robot.py is the same in Python, and describes it.
 *
 *	cc -std=c99 -pthread -o fake_robot fake_robot.c rlb_robot.c rlb.c -lm
 *	rlinf -c robot.yaml actor.model.model_type=cnn_policy \
 *		env.train.external.command="./fake_robot --virtual --person 0.3 --log robot.jsonl"
 */
#define _POSIX_C_SOURCE 200809L
#include "rlb.h"
#include "rlb_robot.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SIZE = 64, LIMIT = 60 };

typedef struct {
	double place[2], velocity[2], spot[2];
	double period, person;           /* the share of the steps in which the person acts */
	int is_virtual, stall, crash;    /* the step that hangs, and the step that fails; 0: none */
	int steps, all, acts;            /* steps of the episode, and of all; whether the person acts */
	uint64_t state;                  /* of the random numbers of the episode */
	FILE *log;
	rlb_robot *robot;
} hand;

/* uniform returns a random number from 0 to 1. */
static double uniform(hand *h)
{
	h->state = h->state * 6364136223846793005u + 1442695040888963407u;
	return (double)(h->state >> 11) / 9007199254740992.0;
}

static void note(hand *h, const char *event, const double *action, int intervened)
{
	if (h->log == NULL)
		return;
	flockfile(h->log); /* commands come from a thread of their own */
	fprintf(h->log, "{\"event\": \"%s\"", event);
	if (action != NULL)
		fprintf(h->log, ", \"action\": [%.17g, %.17g], \"intervened\": %s", action[0], action[1],
			intervened ? "true" : "false");
	fprintf(h->log, "}\n");
	fflush(h->log);
	funlockfile(h->log);
}

static double within(double x, double most) { return x < -most ? -most : x > most ? most : x; }

static int command(void *user, const void *action)
{
	hand *h = (hand *)user;
	note(h, "command", (const double *)action, 0);
	for (int i = 0; i < 2; i++) {
		h->velocity[i] = within(((const double *)action)[i], 1);
		h->place[i] = within(h->place[i] + 0.1 * h->velocity[i], 1);
	}
	return 0;
}

static void stop(void *user)
{
	hand *h = (hand *)user;
	note(h, "stop", NULL, 0);
	h->velocity[0] = h->velocity[1] = 0;
}

static void square(uint8_t *image, const double *at, uint8_t red, uint8_t other)
{
	int left = (int)((at[0] + 1) / 2 * (SIZE - 7)), top = (int)((at[1] + 1) / 2 * (SIZE - 7));
	for (int y = top; y < top + 7; y++)
		for (int x = left; x < left + 7; x++) {
			image[(y * SIZE + x) * 3] = red;
			image[(y * SIZE + x) * 3 + 1] = image[(y * SIZE + x) * 3 + 2] = other;
		}
}

static void observe(const hand *h, const rlb_out *out)
{
	double *state = (double *)out->obs[0];
	uint8_t *image = (uint8_t *)out->obs[1];
	memcpy(state, h->place, sizeof h->place);
	memcpy(state + 2, h->velocity, sizeof h->velocity);
	memset(image, 40, SIZE * SIZE * 3);
	square(image, h->spot, 220, 40);
	square(image, h->place, 230, 230);
}

static void reset(void *user, int env, uint64_t seed, const rlb_out *out)
{
	hand *h = (hand *)user;
	(void)env;
	rlb_robot_pause(h->robot);
	h->state = seed;
	for (int i = 0; i < 2; i++) {
		h->place[i] = 1.8 * uniform(h) - 0.9;
		h->spot[i] = 1.8 * uniform(h) - 0.9;
	}
	h->steps = h->acts = 0;
	note(h, "reset", NULL, 0);
	observe(h, out);
}

static void step(void *user, int env, const void *action, const rlb_out *out)
{
	hand *h = (hand *)user;
	double does[2];
	(void)env;
	memcpy(does, action, sizeof does);
	if (++h->all == h->crash) {
		fprintf(stderr, "the gripper is stuck\n");
		exit(1);
	}
	if (h->all == h->stall && h->is_virtual) {
		rlb_robot_idle(h->robot, 10);
	} else if (h->all == h->stall) {
		struct timespec t = {(time_t)(10 * h->period), (long)(fmod(10 * h->period, 1) * 1e9)};
		nanosleep(&t, NULL);
	}
	if (h->steps++ % 5 == 0)
		h->acts = uniform(h) < h->person;
	if (h->acts) {
		out->intervened[0] = 1;
		for (int i = 0; i < 2; i++) { /* the person knows the way, and often pushes beyond the bounds */
			does[i] = 6 * (h->spot[i] - h->place[i]);
			((float *)out->taken)[i] = (float)does[i];
		}
	}
	int late = rlb_robot_act(h->robot, does);
	if (late < 0)
		exit(1);
	int success = fabs(h->place[0] - h->spot[0]) < 0.15 && fabs(h->place[1] - h->spot[1]) < 0.15;
	out->reward[0] = out->info[0] = (float)success;
	out->info[1] = (float)late;
	out->terminated[0] = (uint8_t)success;
	note(h, "step", does, h->acts);
	observe(h, out);
}

int main(int argc, char **argv)
{
	hand h = {.period = 0.1};
	for (int i = 1; i < argc; i++) {
		const char *flag = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
		if (strcmp(flag, "--virtual") == 0) {
			h.is_virtual = 1;
			continue;
		}
		i++;
		if (strcmp(flag, "--period") == 0)
			h.period = atof(value);
		else if (strcmp(flag, "--person") == 0)
			h.person = atof(value);
		else if (strcmp(flag, "--stall") == 0)
			h.stall = atoi(value);
		else if (strcmp(flag, "--crash") == 0)
			h.crash = atoi(value);
		else if (strcmp(flag, "--log") != 0 || (h.log = fopen(value, "a")) == NULL)
			return fprintf(stderr, "fake_robot: %s %s: expected --virtual, --period S, --person SHARE, --stall N, "
				"--crash N or --log FILE\n", flag, value), 2;
	}
	rlb_spec spec = {.name = "fake robot",
	                 .obs = {{.name = "state", .kind = RLB_F64, .shape = {4}, .low = -2, .high = 2},
	                         {.name = "image", .kind = RLB_U8, .shape = {SIZE, SIZE, 3}}},
	                 .action = {.kind = RLB_F64, .shape = {2}, .low = -1, .high = 1},
	                 .num_envs = 1, .max_steps = LIMIT, .info = {"success", "late"}, .intervene = 1,
	                 .period = h.period};
	h.robot = rlb_robot_start(&(rlb_clock){.period = h.period, .size = sizeof h.place, .command = command, .stop = stop,
	                                       .user = &h, .is_virtual = h.is_virtual});
	if (h.robot == NULL)
		return fprintf(stderr, "fake_robot: a period of %g s: expected at least 0.001\n", h.period), 2;
	int rc = rlb_serve(&spec, &(rlb_callbacks){.reset = reset, .step = step}, &h);
	if (rlb_error() != NULL)
		fprintf(stderr, "fake_robot: %s\n", rlb_error());
	rlb_robot_close(h.robot);
	return rc != 0;
}
