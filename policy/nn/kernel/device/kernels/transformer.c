// Norms, rotations and gates of a transformer, its embedding and its values.
#include "functions.h"

// A row has LANES threads, and lane l has the elements l, l + LANES, …. A block has ROWS rows.
enum { LANES = 16, ROWS = THREADS / LANES };
SHARED double partial[THREADS];

// fold returns the sum of the lanes of a row, added as a tree of halves.
INLINE double fold(double lane) {
	const int t = THREAD;
	partial[t] = lane;
	BARRIER;
	double l[8];
	UNROLL
	for (int i = 0; i < 8; i++)
		l[i] = partial[t - t % LANES + i] + partial[t - t % LANES + i + 8];
	return ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
}

// rms_norm sets y [m,n] to w∘x·inv and inv [m] to 1/√(mean x² + eps). y may be x.
KERNEL rms_norm(out y, out inv, in x, in w, int m, int n, double eps) {
	const int lane = THREAD % LANES, row = BLOCK_X * ROWS + THREAD / LANES;
	double sum = 0.0;
	if (row < m)
		for (int j = lane; j < n; j += LANES) {
			const double v = (double)x[(long)row * n + j];
			sum = sum + v * v;
		}
	sum = fold(sum);
	if (row >= m)
		return;
	const float r = (float)(1.0 / __builtin_sqrt(sum / (double)n + eps));
	if (lane == 0)
		inv[row] = r;
	for (int j = lane; j < n; j += LANES)
		y[(long)row * n + j] = x[(long)row * n + j] * r * w[j];
}

// rms_norm_grad sets dx [m,n] to the gradient of x for y = rms_norm(x), or adds it to dx with acc. dx may be dy.
KERNEL rms_norm_grad(out dx, in dy, in x, in w, in inv, int m, int n, int acc) {
	const int lane = THREAD % LANES, row = BLOCK_X * ROWS + THREAD / LANES;
	const long first = (long)row * n;
	double sum = 0.0;
	if (row < m)
		for (int j = lane; j < n; j += LANES)
			sum = sum + (double)(w[j] * dy[first + j]) * (double)x[first + j];
	sum = fold(sum);
	if (row >= m)
		return;
	const float r = inv[row], mean = (float)(sum * (double)r * (double)r / (double)n);
	for (int j = lane; j < n; j += LANES) {
		const float g = (w[j] * dy[first + j] - x[first + j] * mean) * r;
		dx[first + j] = acc ? g + dx[first + j] : g;
	}
}

// rms_norm_sums adds Σ dy∘x·inv to dw [heads/per,n], with heads rows for each token and per rows of it in each block of
// dw. A thread has one element of dw, and adds the rows in order.
KERNEL rms_norm_sums(out dw, in dy, in x, in inv, int m, int n, int heads, int per) {
	const long i = ELEMENT;
	if (i >= (long)(heads / per) * n)
		return;
	const int block = (int)(i / n), column = (int)(i % n);
	float sum = dw[i];
	for (int token = 0; token < m; token += heads)
		for (int row = token + block * per; row < token + (block + 1) * per; row++) {
			const long at = (long)row * n + column;
			sum = sum + dy[at] * (x[at] * inv[row]);
		}
	dw[i] = sum;
}

// rotate rotates the pairs of elements j and half+j in the heads of queries q [rows,heads,2·half] and of keys
// [rows,key_heads,2·half], and multiplies queries by scale.
KERNEL rotate(out q, out key, in cos, in sin, int rows, int heads, int key_heads, int half, float scale, int inverse) {
	const long i = ELEMENT, all = heads + key_heads;
	if (i >= rows * all * half)
		return;
	const int j = (int)(i % half), head = (int)(i / half % all);
	const long row = i / half / all;
	out x = head < heads ? q + (row * heads + head) * 2 * half : key + (row * key_heads + head - heads) * 2 * half;
	const float by = head < heads ? scale : 1.0f;
	const float a = x[j], b = x[half + j], c = cos[row * half + j];
	const float s = inverse ? -sin[row * half + j] : sin[row * half + j];
	x[j] = (a * c - b * s) * by;
	x[half + j] = (b * c + a * s) * by;
}

INLINE float sigmoid_of(float x) { return 1.0f / (exp_of(-x) + 1.0f); }

// swiglu sets y to gate·σ(gate)·up.
KERNEL swiglu(out y, in gate, in up, long n) {
	const long i = ELEMENT;
	if (i < n)
		y[i] = sigmoid_of(gate[i]) * gate[i] * up[i];
}

// swiglu_grad replaces gate and up with their gradients, and sets y to the result of swiglu. dy is its gradient.
KERNEL swiglu_grad(out y, out gate, out up, in dy, long n) {
	const long i = ELEMENT;
	if (i >= n)
		return;
	const float g = gate[i], u = up[i], d = dy[i], s = sigmoid_of(g), silu = g * s;
	y[i] = silu * u;
	up[i] = d * silu;
	gate[i] = d * u * ((1.0f - s) * silu + s);
}

typedef const GLOBAL int *numbers;

// embed sets each row of y [n,width] to the embedding of an id: a row of table [vocabulary,width], or a column of table
// [width,vocabulary] if transposed is set. It leaves out ids below 0.
KERNEL embed(out y, in table, numbers ids, int n, int width, int vocabulary, int transposed) {
	const long i = ELEMENT, row = i / width, column = i % width;
	if (row >= n || ids[row] < 0)
		return;
	y[i] = table[transposed ? column * vocabulary + ids[row] : (long)ids[row] * width + column];
}

// add_embeddings adds row i of x [n,width] to column ids[i] of grad [width,vocabulary]. No id stands twice.
KERNEL add_embeddings(out grad, in x, numbers ids, int n, int width, int vocabulary) {
	const long i = ELEMENT, row = i / width, column = i % width;
	if (row < n)
		grad[column * vocabulary + ids[row]] = grad[column * vocabulary + ids[row]] + x[i];
}

// copy_rows sets row to[i] of y to row from[i] of x, for n rows of width elements.
KERNEL copy_rows(out y, numbers to, in x, numbers from, int width, int n) {
	const long i = ELEMENT, row = i / width, column = i % width;
	if (row < n)
		y[(long)to[row] * width + column] = x[(long)from[row] * width + column];
}

// add_rows adds rows of x to n rows of y. Row to[i] of y gets the rows from[ends[i-1]] to from[ends[i]-1], in order.
// Unless scales is 0, it multiplies row from[k] by scales[k].
KERNEL add_rows(out y, numbers to, numbers ends, in x, numbers from, in scales, int width, int n) {
	const long i = ELEMENT, row = i / width, column = i % width;
	if (row >= n)
		return;
	out at = y + (long)to[row] * width + column;
	float sum = *at;
	for (int k = row == 0 ? 0 : ends[row - 1]; k < ends[row]; k++)
		sum = x[(long)from[k] * width + column] * (scales ? scales[k] : 1.0f) + sum;
	*at = sum;
}

// values sets y[i], for n rows of x, to bias[0] plus the product of w [width] and row rows[i]: a chain in float64.
KERNEL values(out y, in x, in w, in bias, numbers rows, int width, int n) {
	const long i = ELEMENT;
	if (i >= n)
		return;
	double sum = (double)bias[0];
	_Pragma("clang loop unroll(disable)") // else shifts that internal/ptx does not know
	for (int j = 0; j < width; j++)
		sum = sum + (double)w[j] * (double)x[(long)rows[i] * width + j];
	y[i] = (float)sum;
}
