// The optimiser's step and the norm of its gradient.
#include "kernel.h"

// adam updates the parameters p and the moments m and v with the gradient g, as kernel.AdamStep.
KERNEL adam(out p, in g, out m, out v, long n, float scale, float beta1, float rest1, float beta2, float rest2,
	float decay, float step, float root, float eps) {
	const long i = ELEMENT;
	if (i >= n)
		return;
	const float d = g[i] * scale;
	const float mean = m[i] * beta1 + d * rest1;
	const float square = v[i] * beta2 + d * rest2 * d;
	m[i] = mean;
	v[i] = square;
	p[i] = p[i] * decay - mean / (__builtin_sqrtf(square) * root + eps) * step;
}

// The sums of squares of a block of elements: one for each index mod LANES.
enum { LANES = 16, SUMS = THREADS / LANES };
SHARED double partial[THREADS];

// square_sums sets sum[b] to the sum of squares of a piece of x, as kernel.SumSq. Piece b has the elements
// [pieces[2·b], pieces[2·b+1]). A block of threads computes 16 sums.
KERNEL square_sums(GLOBAL double *sum, in x, const GLOBAL long *pieces, int count) {
	const int lane = THREAD % LANES;
	const int b = BLOCK_X * SUMS + THREAD / LANES;
	const long from = b < count ? pieces[2 * b] : 0, to = b < count ? pieces[2 * b + 1] : 0;
	double s = 0.0;
	for (long i = from + lane; i < to; i += LANES)
		s = s + (double)x[i] * (double)x[i];
	partial[THREAD] = s;
	BARRIER;
	if (lane != 0 || b >= count)
		return;
	double all = 0.0;
	for (int i = 0; i < LANES; i++)
		all = all + partial[THREAD + i];
	sum[b] = all;
}
