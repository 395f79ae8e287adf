/*
 * rlb.h lets rlinf train on a simulator that is written in C or C++.
 *
 * Compile rlb.c into the program; rlb.c needs only C99 and POSIX. The protocol is RLB1, docs/bridge.md. There are two
 * styles.
 *
 * The solver owns its loop, and plays one environment:
 *
 *	rlb_spec spec = {.name = "tank", .obs = {{.name = "level", .kind = RLB_F64, .shape = {8}}},
 *	                 .action = {.kind = RLB_F64, .shape = {2}, .low = -1, .high = 1}};
 *	rlb *r = rlb_open(&spec);
 *	for (int going = r ? 0 : -1; going >= 0;) {
 *		begin(rlb_seed(r), level);
 *		rlb_send_init(r, level);
 *		while ((going = rlb_recv_action(r, inflow)) == 1) {
 *			advance(inflow, level);
 *			rlb_send_state(r, level, reward(level));
 *		}
 *	}
 *	rlb_close(r);
 *	if (rlb_error())
 *		return fprintf(stderr, "tank: %s\n", rlb_error()), 1;
 *
 * Or the simulator is served: rlb_serve calls functions of yours, for as many environments as rlinf asks for.
 *
 * The environment variable RLB_ADDR has the address of rlinf. rlb_open and rlb_serve ignore SIGPIPE from then on,
 * unless the program handles it. A program may have several conversations at a time, each in one thread; rlb_error is
 * then the last failure of any of them.
 */
#ifndef RLB_H
#define RLB_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { RLB_MAX_OBS = 16, RLB_MAX_DIMS = 8, RLB_MAX_INFO = 64 };

/* The type of the numbers of a space, in the program's own arrays. */
enum {
	RLB_F32,            /* float */
	RLB_F64,            /* double; travels as float. Actions keep to low and high in the program's type */
	RLB_U8,             /* uint8_t, for images of shape height, width, channels and for action_mask; not for actions */
	RLB_DISCRETE,       /* one int32_t, 0 ... n-1 */
	RLB_MULTI_DISCRETE, /* shape[0] of int32_t, each 0 ... nvec[i]-1 */
};

/* An rlb_space describes an observation or the action. Fields that are left out are 0. */
typedef struct {
	const char *name;              /* observations: 1 to 64 letters, digits, "_", "-", "." */
	int kind;                      /* RLB_F32 ... */
	int shape[RLB_MAX_DIMS];       /* sizes up to the first 0; without sizes, the value is a single number */
	double low, high;              /* bounds of every number; infinite: no such bound; both 0: no bounds */
	const double *lows, *highs;    /* bounds of each number, in place of low and high */
	int n;                         /* RLB_DISCRETE: number of choices */
	const int *nvec;               /* RLB_MULTI_DISCRETE: numbers of choices */
} rlb_space;

/* An rlb_spec describes the simulator. The memory that it points to must not change until rlb_close, or the end of
 * rlb_serve. The rlb_spec itself may change. */
typedef struct {
	const char *name;               /* name of the simulator, for messages */
	rlb_space obs[RLB_MAX_OBS];     /* the observations, up to the first without a name */
	rlb_space action;
	int num_envs;                   /* served: how many environments there are; 0: as many as rlinf asks for */
	int max_steps;                  /* steps after which episodes are truncated, unless the job sets it; 0: never */
	const char *info[RLB_MAX_INFO]; /* names of figures that each step reports, up to the first NULL */
	size_t state_size;              /* served with save and load: bytes of an environment's state */
	/* The solver owns its loop: NULL, or writes the action that an expert takes after the observations now. now[i] is
	 * observation i, in the kind and shape of its space. user is expert_data. */
	void (*expert)(void *user, void *const *now, void *action);
	void *expert_data;
	int intervene;                  /* 1: a person may act in place of the policy; see rlb_intervened and rlb_out */
	double period;                  /* of a robot: seconds between two steps, see rlb_robot.h; 0: no robot */
	/* NULL, or the rule by which the simulator computes its rewards from its observations achieved_goal and
	 * desired_goal, vectors of numbers: "sparse" (0 within goal_threshold, otherwise -1) or "zero_one" (1, otherwise
	 * 0). If goal_terminates is not 0, an episode terminates when the goal is reached. */
	const char *goal_reward;
	double goal_threshold;
	int goal_terminates;
} rlb_spec;

/* rlb_error returns the reason of the last failure. It returns NULL if no call failed, and if rlinf ended the
 * conversation. */
const char *rlb_error(void);

/* ---- The solver owns its loop ---- */

typedef struct rlb rlb;

/* How an episode ended; both may be true. */
enum {
	RLB_TERMINATED = 1, /* by the task's own end, after which no reward can come */
	RLB_TRUNCATED = 2,  /* cut off from outside: the training estimates the missing rewards */
};

/* rlb_open sends the greeting to rlinf and agrees on memory. It returns NULL if that fails. It also returns NULL,
 * without an rlb_error, if rlinf only asked for the greeting, to learn the spaces. */
rlb *rlb_open(const rlb_spec *spec);

/* rlb_seed returns the seed of the next episode: equal seeds must give equal episodes. */
uint64_t rlb_seed(rlb *r);

/* rlb_send_init begins an episode with its first observation. Here and below, obs is the array of observation 0 of the
 * spec, in the kind and shape of its space; NULL if rlb_obs has set it. */
void rlb_send_init(rlb *r, const void *obs);

/* rlb_recv_action waits for an action, writes it to action, and returns 1. It returns 0 if the episode is over, by
 * rlinf or by the job's limit of steps, and the next episode is to begin. It returns -1 if the job is over, or if the
 * conversation failed; then rlb_error has the reason. */
int rlb_recv_action(rlb *r, void *action);

/* rlb_send_state answers an action with the observation after it, and its reward. */
void rlb_send_state(rlb *r, const void *obs, double reward);

/* rlb_send_last answers the last action of an episode; how is RLB_TERMINATED, RLB_TRUNCATED or both. */
void rlb_send_last(rlb *r, const void *obs, double reward, int how);

/* rlb_obs sets observation i, counted from 0, for the next rlb_send_... */
void rlb_obs(rlb *r, int i, const void *values);

/* rlb_info sets figure i, counted from 0, for the next rlb_send_state or rlb_send_last. */
void rlb_info(rlb *r, int i, double value);

/* rlb_intervened sets what a person did in place of the policy's last action, for the next rlb_send_state or
 * rlb_send_last. action has the kind and shape of the spec; its numbers may be beyond the bounds, and rlinf clips
 * them. spec.intervene must be 1. */
void rlb_intervened(rlb *r, const void *action);

/* rlb_close frees r, which may be NULL. If the conversation is not over, rlb_close ends it and tells rlinf. */
void rlb_close(rlb *r);

/* ---- The simulator is served ---- */

/* An rlb_out has the arrays for the results of one of your functions: of one environment, or one row for each
 * environment. All arrays but obs are 0 before the call. */
typedef struct {
	void *obs[RLB_MAX_OBS];         /* in the kind and shape of each space; write all numbers. NULL after the last */
	float *reward;
	uint8_t *terminated, *truncated;
	float *info;                    /* the figures of spec.info */
	uint8_t *intervened;            /* with spec.intervene: 1 if a person acted in place of the policy, else NULL */
	void *taken;                    /* with spec.intervene: what the person did, as float, or int32_t for choices */
} rlb_out;

/* The functions that rlb_serve calls, with the pointer that it was given. env counts from 0. reset is required, and
 * either step or step_all. */
typedef struct {
	/* Called once, before all others. There are num_envs environments; child is the number of this process among the
	 * children of its rank. Return 0, or -1 to refuse. */
	int (*start)(void *user, int num_envs, int child);
	/* Begin an episode and write its first observation. Equal seeds must give equal episodes. */
	void (*reset)(void *user, int env, uint64_t seed, const rlb_out *out);
	/* Take a step. After the end of an episode, rlb_serve calls reset. rlb_serve truncates episodes at the job's limit
	 * of steps. */
	void (*step)(void *user, int env, const void *action, const rlb_out *out);
	/* Take a step in all environments whose mask is 1, and do not change the rows of the others. */
	void (*step_all)(void *user, const uint8_t *mask, const void *action, const rlb_out *out);
	/* Copy the state of an environment to or from spec.state_size bytes. load also writes the observation. */
	void (*save)(void *user, int env, void *state);
	void (*load)(void *user, int env, const void *state, const rlb_out *out);
	/* Draw a picture of an environment, the top row first, three bytes per pixel. */
	void (*render)(void *user, int env, int width, int height, uint8_t *rgb);
	/* Write the action that an expert takes in the present state, and change nothing. now has the present observations;
	 * do not write to it. The action has the kind and shape of the spec. */
	void (*expert)(void *user, int env, const rlb_out *now, void *action);
} rlb_callbacks;

/* rlb_serve plays environments until rlinf ends the conversation, and returns 0. It returns -1 if the conversation
 * failed; then rlb_error has the reason. */
int rlb_serve(const rlb_spec *spec, const rlb_callbacks *callbacks, void *user);

/* ---- Other ways to rlinf ---- */

/* An rlb_link carries the bytes of a conversation in place of pipes and sockets, as in rlb_mpi.c. Missing functions are
 * 0. A function that fails returns rlb_fail(why). */
typedef struct {
	long (*recv)(void *ctx, void *buf, size_t room);     /* waits for 1 to room bytes; 0 at the end */
	int (*send)(void *ctx, const void *frame, size_t n); /* all n bytes, a whole frame; 0 */
	void (*close)(void *ctx);
	void *ctx;
	/* NULL, or waits for a frame that may come by the bell (docs/bridge.md). It writes a header from the bell and
	 * returns its size, 32; it returns 0 if recv has input. After the first call, send rings the bells. */
	long (*await)(void *ctx, void *bells, void *header);
} rlb_link;

/* rlb_fail sets the text of rlb_error, in the format of printf, and returns -1. */
int rlb_fail(const char *format, ...);

/* rlb_space_size returns the number of bytes of the program's array of a space. */
size_t rlb_space_size(const rlb_space *space);

/* rlb_open_on and rlb_serve_on are rlb_open and rlb_serve on a link, which they close. */
rlb *rlb_open_on(const rlb_link *link, const rlb_spec *spec);
int rlb_serve_on(const rlb_link *link, const rlb_spec *spec, const rlb_callbacks *callbacks, void *user);

#ifdef __cplusplus
}
#endif

#endif
