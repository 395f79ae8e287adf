/* Plays the vectors of an export: play policy.bin vectors.bin. The test replaces the words after @. */
#include "policy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int allocations, counting;

#ifdef COUNT
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n) { allocations += counting; return __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t size) { allocations += counting; return __real_calloc(n, size); }
void *__wrap_realloc(void *p, size_t n) { allocations += counting; return __real_realloc(p, n); }
#endif

static void get(FILE *f, void *x, size_t size)
{
	if (fread(x, 1, size, f) != size)
		exit(3);
}

static void ok(int code)
{
	if (code == POLICY_OK)
		return;
	fprintf(stderr, "%s\n", policy_text(code));
	exit(1);
}

@DECLARE
static @KIND want[POLICY_CHUNK][POLICY_ACTIONS], action[POLICY_ACTIONS];
static float value[POLICY_VALUES + 1], critic[POLICY_VALUES + 1];
static policy_state s, *copy;
static const double half[] = {@HALVES};

int main(int argc, char **argv)
{
	policy *p;
	double worst = 0, off = 0;
	int32_t steps, begins, wrong = 0;
	if (argc != 3)
		return 2;
	ok(policy_open(&p, argv[1]));
	copy = malloc(sizeof *copy);
	FILE *f = fopen(argv[2], "rb");
	get(f, &steps, sizeof steps);
	for (int t = 0; t < steps; t++) {
		get(f, &begins, sizeof begins);
@READ		get(f, want, sizeof want);
		get(f, value, POLICY_VALUES * sizeof *value);
		counting = 1;
		if (begins)
			policy_begin(&s);
		for (int k = 0; k < POLICY_CHUNK * POLICY_REPEAT; k++) {
			memcpy(copy, &s, sizeof s); /* a state may move between steps */
			memset(&s, 255, sizeof s);
			memcpy(&s, copy, sizeof s);
			ok(policy_act(p, &s, @PASSaction));
			for (int i = 0; i < POLICY_ACTIONS; i++) {
				@KIND expected = want[k / POLICY_REPEAT][i];
				if ((@KIND)0.5 == 0)
					wrong += action[i] != expected;
				else
					worst = fmax(worst, fabs((double)action[i] - expected) / half[i % (sizeof half / sizeof *half)]);
			}
		}
#ifdef HAS_VALUE
		ok(policy_value(p, &s, critic));
#endif
		for (int i = 0; i < POLICY_VALUES; i++)
			off = fmax(off, fabs((double)critic[i] - value[i]) / fmax(1, fabs(value[i])));
		counting = 0;
	}
	printf("%g %g %d %d\n", worst, off, wrong, allocations);
	fclose(f);
	free(copy);
	policy_close(p);
	return 0;
}
