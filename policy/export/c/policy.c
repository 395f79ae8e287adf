/* policy.c: see policy.h. A program of rlinf wrote this file. */
#include "policy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct policy {
	float weights[@WEIGHTS];
};

static const uint64_t hash = UINT64_C(@HASH);

int policy_open(policy **p, const char *path)
{
	unsigned char head[8], word[4];
	uint64_t sum = UINT64_C(14695981039346656037); /* FNV-1a */
	*p = NULL;
	FILE *f = fopen(path, "rb");
	if (f == NULL)
		return POLICY_NO_FILE;
	policy *q = malloc(sizeof *q);
	int code = q == NULL ? POLICY_NO_MEMORY : POLICY_OK;
	if (code == POLICY_OK && (fread(head, 1, 8, f) != 8 || memcmp(head, "rlpolicy", 8) != 0))
		code = POLICY_DAMAGED;
	for (size_t i = 0; code == POLICY_OK && i < sizeof q->weights / sizeof *q->weights; i++) {
		uint32_t bits = 0;
		if (fread(word, 1, 4, f) != 4)
			code = POLICY_DAMAGED;
		for (int k = 0; k < 4 && code == POLICY_OK; k++) {
			bits |= (uint32_t)word[k] << 8 * k;
			sum = (sum ^ word[k]) * UINT64_C(1099511628211);
		}
		memcpy(&q->weights[i], &bits, 4);
	}
	if (code == POLICY_OK && (fgetc(f) != EOF || sum != hash))
		code = POLICY_DAMAGED;
	fclose(f);
	if (code == POLICY_OK)
		*p = q;
	else
		free(q);
	return code;
}

void policy_close(policy *p) { free(p); }

void policy_begin(policy_state *s) { s->started = 0; }

const char *policy_text(int code)
{
	switch (code) {
	case POLICY_OK: return "success";
	case POLICY_NO_FILE: return "the file of weights cannot be read";
	case POLICY_DAMAGED: return "the file of weights is damaged, or belongs to another policy.c";
	case POLICY_NO_MEMORY: return "too little memory for the weights";
	case POLICY_NOT_FINITE: return "an observation, or what follows from it, is infinite or not a number";
	case POLICY_RANGE: return "a choice in the observation is not among its options";
	case POLICY_BLOCKED: return "the mask allows no option of a choice";
	}
	return "unknown result";
}

@KERNELS
/* decide computes the actions of a chunk. */
static int decide(const policy *p, policy_state *s, @INPUTS)
{
	const float *w = p->weights;
	float *v = s->work;
@DECIDE	return POLICY_OK;
}

int policy_act(const policy *p, policy_state *s, @PARAMETERS)
{
	if (!s->started || s->left == 0) {
		int code = decide(p, s, @NAMES);
		s->started = code == POLICY_OK;
		s->left = POLICY_CHUNK * POLICY_REPEAT;
		if (code != POLICY_OK)
			return code;
	}
	int next = (POLICY_CHUNK * POLICY_REPEAT - s->left--) / POLICY_REPEAT;
	memcpy(action, @ACTION + next * POLICY_ACTIONS, POLICY_ACTIONS * sizeof *action);
	return POLICY_OK;
}
@CRITIC
