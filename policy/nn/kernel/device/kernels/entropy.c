// Cross-entropies of rows of logits.
#include "functions.h"

typedef const GLOBAL int *numbers;

// A block of columns of a row has LANES threads, and lane l has the elements l, l + LANES, ….
enum { LANES = 16, TOGETHER = THREADS / LANES };
SHARED float lanes[THREADS];

// fold returns the sum of the lanes, added as a tree of halves, or their maximum.
INLINE float fold(float lane, int maximum) {
	const int t = THREAD;
	BARRIER; // the lanes of the last fold are read
	lanes[t] = lane;
	BARRIER;
	float l[LANES];
	UNROLL
	for (int i = 0; i < LANES; i++)
		l[i] = lanes[t - t % LANES + i];
	UNROLL
	for (int half = LANES / 2; half > 0; half /= 2)
		UNROLL
		for (int i = 0; i < half; i++)
			l[i] = !maximum ? l[i] + l[i + half] : l[i] > l[i + half] ? l[i] : l[i + half];
	return l[0];
}

// cross_entropy computes numbers of each of n rows of logits [width], as lm.Ops.CrossEntropy. A row of sums has the
// largest logit of each block of columns, Σ e^(logit - largest) and Σ e^(logit - largest)·(logit - largest), and then
// the logit of the row's token.
KERNEL cross_entropy(out sums, in logits, numbers tokens, int n, int width, int blocks, int block) {
	const int lane = THREAD % LANES, number = BLOCK_X * TOGETHER + THREAD / LANES;
	const int row = number / blocks, b = number % blocks;
	const int from = row < n ? b * block < width ? b * block : width : 0;
	const int to = row < n ? from + block < width ? from + block : width : 0;
	in x = logits + (long)row * width;
	float top = from < to ? x[from] : 0.0f;
	for (int j = from + lane; j < from + (to - from + LANES - 1) / LANES * LANES; j += LANES) {
		const float v = j < to ? x[j] : -__builtin_inff(); // as in a vector that is not full
		top = top > v ? top : v;
	}
	top = fold(top, 1);
	float sum = 0.0f, weighted = 0.0f;
	for (int j = from + lane; j < to; j += LANES) {
		float z = x[j] - top;
		z = -105.0f > z ? -105.0f : z;
		const float e = exp_of(z);
		sum = sum + e;
		weighted = weighted + e * z;
	}
	sum = fold(sum, 0);
	weighted = fold(weighted, 0);
	if (row >= n || lane != 0)
		return;
	sums += (long)row * (3 * blocks + 1);
	sums[3 * b] = from < to ? top : -__builtin_inff();
	sums[3 * b + 1] = sum;
	sums[3 * b + 2] = weighted;
	if (b == 0)
		sums[3 * blocks] = x[tokens[row]];
}

// cross_entropy_grad replaces n rows of logits [width] with their gradients, as lm.Ops.CrossEntropyGrad. facts has for
// each row log Σ e^logit, the entropy, and the gradients of the token's log-probability and of the entropy.
KERNEL cross_entropy_grad(out logits, in facts, numbers tokens, int n, int width) {
	const long i = ELEMENT, row = i / width;
	if (row >= n)
		return;
	const float shift = facts[4 * row], h = facts[4 * row + 1], dlogp = facts[4 * row + 2], dh = facts[4 * row + 3];
	const float z = logits[i] - shift, p = exp_of(z);
	float d = p * -dlogp;
	if (dh != 0.0f)
		d = p == 0.0f ? 0.0f : -p * (dlogp + dh * (z + h));
	logits[i] = i % width == tokens[row] ? d + dlogp : d;
}

SHARED float best[THREADS];
SHARED int places[THREADS];

// largest sets best [n,2] to the largest logit of each row, and the number of its column. Of equal logits it is the
// first. A block has a row.
KERNEL largest(out result, in logits, int width) {
	const int t = THREAD;
	in x = logits + (long)BLOCK_X * width;
	float top = x[0];
	int place = 0;
	for (int j = t; j < width; j += THREADS)
		if (x[j] > top) {
			top = x[j];
			place = j;
		}
	best[t] = top;
	places[t] = place;
	BARRIER;
	if (t != 0)
		return;
	for (int i = 1; i < THREADS; i++)
		if (best[i] > top || (best[i] == top && places[i] < place)) {
			top = best[i];
			place = places[i];
		}
	result[2 * BLOCK_X] = top;
	result[2 * BLOCK_X + 1] = (float)place;
}
