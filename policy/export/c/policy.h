/*
 * policy.h: a trained policy for @TASK, as plain C. Compile policy.c into the program, with -lm; the weights are in
 * policy.bin. policy.json describes observations and actions.
 *
 *	static policy_state s;                       // zeros: an episode begins
 *	policy *p;
 *	int code = policy_open(&p, "policy.bin");
 *	for (int t = 0; code == 0 && going; t++) {
 *		code = policy_act(p, &s, @OBSERVATIONSaction);
 *		advance(action);
 *	}
 *	if (code)
 *		fprintf(stderr, "%s\n", policy_text(code));
 *	policy_close(p);
 *
 * A policy does not change after policy_open, so that threads may share it. Each environment has a policy_state of its
 * own. Only policy_open allocates memory. A policy_state may be too large for the stack.
 *
 * Made by @BUILD, from step @STEP of @RUN.
 */
#ifndef POLICY_H
#define POLICY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
	POLICY_CHUNK = @CHUNK,   /* actions of one decision; the environment takes them one after the other */
	POLICY_REPEAT = @REPEAT,  /* how many times the environment takes each action */
	POLICY_ACTIONS = @ACTIONS, /* numbers in an action */
	POLICY_VALUES = @VALUES   /* numbers of the critic; 0 without a critic */
};

/* The results of functions. */
enum {
	POLICY_OK,
	POLICY_NO_FILE,    /* policy.bin cannot be read */
	POLICY_DAMAGED,    /* policy.bin is damaged, or belongs to another policy.c */
	POLICY_NO_MEMORY,
	POLICY_NOT_FINITE, /* an observation, or what follows from it, is infinite or not a number */
	POLICY_RANGE,      /* a choice in the observation is not among its options */
	POLICY_BLOCKED     /* the mask allows no option of a choice */
};

typedef struct policy policy;

/* A policy_state is the memory of one environment. Zeros are a valid state: an episode begins. */
typedef struct policy_state {
	int32_t started, left;
	float memory[@MEMORY];
	float work[@WORK];
	int32_t ints[@INTS];
	uint8_t bytes[@BYTES];
} policy_state;

/* policy_open reads the weights. On success it sets *p, else *p is NULL. */
int policy_open(policy **p, const char *path);

void policy_close(policy *p);

/* policy_begin says that the next observation is the first of an episode. */
void policy_begin(policy_state *s);

/* policy_act sets the action for the next step of the environment. Call it once for each step. If the last decision has
 * actions left, policy_act takes the next of them, and does not look at the observation. After an error the episode is
 * over.
 *
@ARGUMENTS */
int policy_act(const policy *p, policy_state *s, @PARAMETERS);
@VALUE
/* policy_text describes a result. */
const char *policy_text(int code);

#ifdef __cplusplus
}
#endif
#endif
