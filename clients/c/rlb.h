/*
 * rlb.h lets rlinf train on a simulator that is written in C or C++.
 *
 * Compile rlb.c into the program; C99 and POSIX are all it needs. The protocol behind it is RLB1, docs/bridge.md. There
 * are two styles.
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
 * rlinf says in the environment variable RLB_ADDR where it is. SIGPIPE is ignored from rlb_open or rlb_serve on, unless
 * the program handles it. Several conversations in one program may go on at a time, each in one thread; rlb_error is
 * then the last failure of any.
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
	const char *name;              /* of an observation: 1 to 64 letters, digits, "_", "-", "." */
	int kind;                      /* RLB_F32 ... */
	int shape[RLB_MAX_DIMS];       /* sizes up to the first 0; none is a single number */
	double low, high;              /* bounds of every number, infinite where there is none; both 0: no bounds */
	const double *lows, *highs;    /* bounds of each number, in place of low and high */
	int n;                         /* of RLB_DISCRETE */
	const int *nvec;               /* of RLB_MULTI_DISCRETE */
} rlb_space;

/* An rlb_spec describes the simulator. The memory that it points to must not change until rlb_close, or the end of
 * rlb_serve. The rlb_spec itself may. */
typedef struct {
	const char *name;               /* of the simulator, for messages */
	rlb_space obs[RLB_MAX_OBS];     /* the observations, up to the first without a name */
	rlb_space action;
	int num_envs;                   /* served: how many environments there are; 0: as many as rlinf asks for */
	int max_steps;                  /* steps that cut an episode off, unless the job says otherwise; 0: never */
	const char *info[RLB_MAX_INFO]; /* names of figures that each step reports, up to the first NULL */
	size_t state_size;              /* served with save and load: bytes of an environment's state */
} rlb_spec;

/* rlb_error says why the last call failed; NULL if none did, and after a conversation that rlinf ended. */
const char *rlb_error(void);

/* ---- The solver owns its loop ---- */

typedef struct rlb rlb;

/* How an episode ended; both may be true. */
enum {
	RLB_TERMINATED = 1, /* by the task's own end, after which no reward can come */
	RLB_TRUNCATED = 2,  /* cut off from outside: what would have come is estimated */
};

/* rlb_open greets rlinf and agrees on memory. NULL if that fails, and without an rlb_error if rlinf wanted the greeting
 * alone, as it does to ask what the spaces are. */
rlb *rlb_open(const rlb_spec *spec);

/* rlb_seed is the seed of the episode to be begun: equal seeds must give equal episodes. */
uint64_t rlb_seed(rlb *r);

/* rlb_send_init begins an episode, in which obs is what is seen first. obs is the array of the first observation, in
 * the kind and shape of its space, here and below; NULL if rlb_obs said it. */
void rlb_send_init(rlb *r, const void *obs);

/* rlb_recv_action waits for what to do and writes it to action. It returns 1 then; 0 if the episode is over, cut off by
 * rlinf or after so many steps as the job allows, and the next is to be begun; -1 if the job is over, or failed, as
 * rlb_error says. */
int rlb_recv_action(rlb *r, void *action);

/* rlb_send_state answers an action: what is seen after it, and its reward. */
void rlb_send_state(rlb *r, const void *obs, double reward);

/* rlb_send_last does so with the last state of an episode; how is RLB_TERMINATED, RLB_TRUNCATED or both. */
void rlb_send_last(rlb *r, const void *obs, double reward, int how);

/* rlb_obs says observation i, counted from 0, of the rlb_send_... that follows. */
void rlb_obs(rlb *r, int i, const void *values);

/* rlb_info says figure i, counted from 0, of the rlb_send_state or rlb_send_last that follows. */
void rlb_info(rlb *r, int i, double value);

/* rlb_close frees r, which may be NULL. If the conversation still goes on, the program leaves it, and says so to
 * rlinf. */
void rlb_close(rlb *r);

/* ---- The simulator is served ---- */

/* An rlb_out is where a function of yours writes its answer: of one environment, or row by row of all. All but obs is 0
 * before the call. */
typedef struct {
	void *obs[RLB_MAX_OBS];         /* each in the kind and shape of its space; write all of it. NULL behind the last */
	float *reward;
	uint8_t *terminated, *truncated;
	float *info;                    /* the figures of spec.info */
} rlb_out;

/* The functions that rlb_serve calls, with the pointer that it was given. env counts from 0. reset is required, and
 * either step or step_all. */
typedef struct {
	/* There are num_envs environments; child is the number of this process among those that share its rank's. Called
	 * once, before all others. 0, or -1 to refuse. */
	int (*start)(void *user, int num_envs, int child);
	/* Begin an episode and write what is seen first. Equal seeds must give equal episodes. */
	void (*reset)(void *user, int env, uint64_t seed, const rlb_out *out);
	/* Take a step. An episode that ends is reset by its own call; one that is as long as the job allows is cut off by
	 * rlb_serve. */
	void (*step)(void *user, int env, const void *action, const rlb_out *out);
	/* Take a step in all environments whose mask is 1, and leave alone the rows of the others. */
	void (*step_all)(void *user, const uint8_t *mask, const void *action, const rlb_out *out);
	/* Copy the state of an environment to or from spec.state_size bytes. load writes what is seen now. */
	void (*save)(void *user, int env, void *state);
	void (*load)(void *user, int env, const void *state, const rlb_out *out);
	/* Draw a picture of an environment, rows from the top, three bytes a pixel. */
	void (*render)(void *user, int env, int width, int height, uint8_t *rgb);
} rlb_callbacks;

/* rlb_serve plays environments until rlinf ends the conversation: 0, or -1 if it failed, as rlb_error says. */
int rlb_serve(const rlb_spec *spec, const rlb_callbacks *callbacks, void *user);

/* ---- Other ways to rlinf ---- */

/* An rlb_link carries the bytes of a conversation where neither pipes nor sockets do. Functions that it
 * does not have are 0. rlb_mpi.c makes one. A function that fails returns rlb_fail(why). */
typedef struct {
	long (*recv)(void *ctx, void *buf, size_t room);     /* waits for 1 to room bytes; 0 at the end */
	int (*send)(void *ctx, const void *frame, size_t n); /* all n bytes, a whole frame; 0 */
	void (*close)(void *ctx);
	void *ctx;
	/* NULL, or waits for a frame where it may come by the bell too (docs/bridge.md): writes its header and returns the
	 * 32 bytes of that, or 0 if recv has something. From then on send rings the bells. */
	long (*await)(void *ctx, void *bells, void *header);
} rlb_link;

/* rlb_fail sets what rlb_error says, in the format of printf, and returns -1. */
int rlb_fail(const char *format, ...);

/* rlb_space_size is how many bytes the program's array of a space has. */
size_t rlb_space_size(const rlb_space *space);

/* rlb_open_on and rlb_serve_on are rlb_open and rlb_serve on a link, which they close. */
rlb *rlb_open_on(const rlb_link *link, const rlb_spec *spec);
int rlb_serve_on(const rlb_link *link, const rlb_spec *spec, const rlb_callbacks *callbacks, void *user);

#ifdef __cplusplus
}
#endif

#endif
