// Matrix products. An element of C [m,n] is its initial value plus a chain of fused multiply-adds over k in order.
// The initial value is C itself with acc, else the bias of the column, or 0 without a bias.
#include "kernel.h"

// A thread has up to MOST x MOST sums, and multiplies up to MOST_STEPS steps of k in a row.
enum { MOST = 8, MOST_STEPS = 16 };

// A shape is constant in each kernel. A block has side x side threads with rows x columns sums each; the other threads
// only fetch. Each of two buffers of shared memory has depth steps of k. a_by_rows says how A lies in memory: element
// (i,p) is a[i*a_step + p] if it is set, else a[p*a_step + i]. With b_by_columns, element (p,j) of B is
// b[j*b_step + p], else b[p*b_step + j].
typedef struct {
	int side, depth, rows, columns, a_by_rows, b_by_columns;
} shape;

typedef __attribute__((address_space(3))) float *tile;
typedef __attribute__((address_space(3))) float4 *tile4;

// across and down return the place of this thread in its block. A thread without sums is below the m rows of C.
INLINE int across(const shape s) { return THREAD % s.side; }
INLINE int down(const shape s, int m) {
	return s.side * s.side == THREADS || THREAD < s.side * s.side ? THREAD / s.side : m;
}

// in_tile returns the row or the column of the i-th of count sums. lane is from 0 to side - 1; side is 16 if count is
// not 1. A thread has up to four neighbours, which it loads at once, and the threads of a half warp have one row of
// shared memory in turn.
INLINE int in_tile(int i, int count, int lane) {
	const int together = count < 4 ? count : 4;
	return i / together * 16 * together + lane * together + i % together;
}

// fetch reads up to four neighbours; those from count on are 0. whole allows one load of 16 bytes.
INLINE float4 fetch(in x, int count, int whole) {
	if (whole && count >= 4)
		return *(const GLOBAL float4 *)x;
	float4 v;
	UNROLL
	for (int i = 0; i < 4; i++)
		v[i] = i < count ? x[i] : 0.0f;
	return v;
}

// load reads the numbers of a thread for one k, from a row of a tile. Four neighbours are one load.
INLINE void load(float x[MOST], tile row, int count, int lane) {
	UNROLL
	for (int i = 0; i < count; i++) {
		if (count < 4)
			x[i] = row[in_tile(i, count, lane)];
		else if (i % 4 == 0)
			*(float4 *)(x + i) = *(tile4)(row + in_tile(i, count, lane));
	}
}

// multiply adds one k to the sums of a thread. a and b are rows of the tiles.
INLINE void multiply(float sum[MOST][MOST], const shape s, tile a, tile b, int tx, int ty) {
	float x[MOST] __attribute__((aligned(16))), y[MOST] __attribute__((aligned(16)));
	load(x, a, s.rows, ty);
	load(y, b, s.columns, tx);
	UNROLL
	for (int i = 0; i < s.rows; i++)
		UNROLL
		for (int j = 0; j < s.columns; j++)
			sum[i][j] = fma(x[i], y[j], sum[i][j]);
}

// add_steps adds k steps to the sums of the block of C at (row0, column0). a_tile and b_tile are two buffers each, of
// depth rows of columns of A and of B. While the threads multiply one buffer, the next steps of k are on their way into
// registers, and from there into the other.
INLINE void add_steps(const shape s, float sum[MOST][MOST], tile a_tile, tile b_tile, in a, int a_step, in b,
	int b_step, int m, int n, int k, int row0, int column0) {
	const int t = THREAD, tx = across(s), ty = down(s, m), rows = s.side * s.rows, columns = s.side * s.columns;
	const int together = s.depth < MOST_STEPS ? s.depth : MOST_STEPS;

	// The four neighbours of A that this thread fetches: of one row if A lies by rows, else of one k. With few rows and
	// many steps, neighbouring threads have other rows, or they would all write to one bank of shared memory.
	const int fetches_a = t < rows * s.depth / 4;
	const int a_row = !s.a_by_rows ? t % (rows / 4) * 4 : rows < s.depth ? t % rows : t / (s.depth / 4);
	const int a_k = !s.a_by_rows ? t / (rows / 4) : rows < s.depth ? t / rows * 4 : t % (s.depth / 4) * 4;
	const int whole_a = (((long)a | a_step * 4L) & 15) == 0;
	const long next_a = s.a_by_rows ? s.depth : (long)s.depth * a_step;
	a += s.a_by_rows ? (long)(row0 + a_row) * a_step + a_k : (long)a_k * a_step + row0 + a_row;
	// And of B.
	const int fetches_b = t < columns * s.depth / 4;
	const int b_column = s.b_by_columns ? t / (s.depth / 4) : t % (columns / 4) * 4;
	const int b_k = s.b_by_columns ? t % (s.depth / 4) * 4 : t / (columns / 4);
	const int whole_b = (((long)b | b_step * 4L) & 15) == 0;
	const long next_b = s.b_by_columns ? s.depth : (long)s.depth * b_step;
	b += s.b_by_columns ? (long)(column0 + b_column) * b_step + b_k : (long)b_k * b_step + column0 + b_column;

	const int live = row0 + in_tile(0, s.rows, ty) < m && column0 + in_tile(0, s.columns, tx) < n;
	tile a_now = a_tile + s.depth * rows, a_next = a_tile, b_now = b_tile + s.depth * columns, b_next = b_tile;
	for (int p = -s.depth; p < k; p += s.depth) { // the first round only fetches
		const int left = k - p - s.depth;
		float4 from_a, from_b;
		if (left > 0 && fetches_a) {
			const int in_rows = m - row0 - a_row, in_k = left - a_k;
			from_a = fetch(a, in_rows <= 0 || in_k <= 0 ? 0 : s.a_by_rows ? in_k : in_rows, whole_a);
			a += next_a;
		}
		if (left > 0 && fetches_b) {
			const int in_columns = n - column0 - b_column, in_k = left - b_k;
			from_b = fetch(b, in_columns <= 0 || in_k <= 0 ? 0 : s.b_by_columns ? in_k : in_columns, whole_b);
			b += next_b;
		}
		if (p >= 0 && live)
			for (int from = 0; from < s.depth && from < k - p; from += together) {
				tile x = a_now + from * rows, y = b_now + from * columns;
				if (k - p - from >= together)
					UNROLL
					for (int q = 0; q < together; q++)
						multiply(sum, s, x + q * rows, y + q * columns, tx, ty);
				else
					_Pragma("clang loop unroll(disable)") // it is rare
					for (int q = 0; q < k - p - from; q++)
						multiply(sum, s, x + q * rows, y + q * columns, tx, ty);
			}
		if (left > 0 && fetches_a && s.a_by_rows)
			UNROLL
			for (int i = 0; i < 4; i++)
				a_next[(a_k + i) * rows + a_row] = from_a[i];
		else if (left > 0 && fetches_a)
			*(tile4)(a_next + a_k * rows + a_row) = from_a;
		if (left > 0 && fetches_b && s.b_by_columns)
			UNROLL
			for (int i = 0; i < 4; i++)
				b_next[(b_k + i) * columns + b_column] = from_b[i];
		else if (left > 0 && fetches_b)
			*(tile4)(b_next + b_k * columns + b_column) = from_b;
		BARRIER;
		tile other = a_now;
		a_now = a_next;
		a_next = other;
		other = b_now;
		b_now = b_next;
		b_next = other;
	}
}

// EACH runs a statement for each sum (i,j) of a thread that is inside C.
#define EACH(STATEMENT)                                                                                            \
	UNROLL                                                                                                     \
	for (int i = 0; i < s.rows; i++)                                                                           \
		UNROLL                                                                                             \
		for (int j = 0; j < s.columns; j++) {                                                              \
			const int row = row0 + in_tile(i, s.rows, ty), column = column0 + in_tile(j, s.columns, tx); \
			if (row < m && column < n)                                                                 \
				STATEMENT;                                                                         \
		}
#define ELEMENT_OF(X, STEP) X[(long)row * (STEP) + column]

// product computes a block of C.
INLINE void product(const shape s, tile a_tile, tile b_tile, out c, in a, in b, in bias, int m, int n, int k, int acc) {
	const int tx = across(s), ty = down(s, m), row0 = BLOCK_Y * s.side * s.rows, column0 = BLOCK_X * s.side * s.columns;
	float sum[MOST][MOST] = {};
	EACH(sum[i][j] = acc ? ELEMENT_OF(c, n) : bias ? bias[column] : 0.0f)
	add_steps(s, sum, a_tile, b_tile, a, s.a_by_rows ? k : m, b, n, m, n, k, row0, column0);
	EACH(ELEMENT_OF(c, n) = sum[i][j])
}

// PRODUCT defines a kernel of one shape.
#define PRODUCT(NAME, SIDE, DEPTH, ROWS, COLUMNS, BY_ROWS)                                                         \
	SHARED float NAME##_a[2 * DEPTH * SIDE * ROWS], NAME##_b[2 * DEPTH * SIDE * COLUMNS];                      \
	KERNEL NAME(out c, in a, in b, in bias, int m, int n, int k, int acc) {                                    \
		const shape s = {SIDE, DEPTH, ROWS, COLUMNS, BY_ROWS, 0};                                          \
		product(s, NAME##_a, NAME##_b, c, a, b, bias, m, n, k, acc);                                       \
	}

PRODUCT(product_large, 16, 8, 8, 8, 1)
PRODUCT(product_small, 16, 8, 2, 2, 1)
PRODUCT(product_narrow, 16, 8, 8, 1, 1)
PRODUCT(product_deep, 8, 128, 1, 1, 1)
PRODUCT(gradient_large, 16, 8, 8, 8, 0)
PRODUCT(gradient_small, 16, 8, 2, 2, 0)
PRODUCT(gradient_narrow, 16, 8, 8, 1, 0)
PRODUCT(gradient_deep, 8, 128, 1, 1, 0)

// A term is one product in a sum: k steps, of which each block has width.
typedef struct {
	in a, b;
	int k, width;
} term;

// tree computes a block of C as kernel.Multiplier: the sum of up to three terms, in up to eight blocks of k. With one
// block a sum begins with its initial value. Else the blocks are added as a binary tree, and the initial value last.
// Initial values lie initial_step apart; there are none if initial is 0.
INLINE void tree(const shape s, tile a_tile, tile b_tile, out c, in initial, int initial_step, int m, int n, int blocks,
	term t0, term t1, term t2) {
	const int tx = across(s), ty = down(s, m), row0 = BLOCK_Y * s.side * s.rows, column0 = BLOCK_X * s.side * s.columns;
	float sum[MOST][MOST], one[MOST][MOST], two[MOST][MOST], four[MOST][MOST]; // sums of so many blocks that wait
	for (int b = 0; b < blocks; b++) {
		EACH(sum[i][j] = blocks == 1 && initial ? ELEMENT_OF(initial, initial_step) : 0.0f)
		for (int number = 0; number < 3; number++) {
			const in x = number == 0 ? t0.a : number == 1 ? t1.a : t2.a;
			const in y = number == 0 ? t0.b : number == 1 ? t1.b : t2.b;
			const int k = number == 0 ? t0.k : number == 1 ? t1.k : t2.k;
			const int width = number == 0 ? t0.width : number == 1 ? t1.width : t2.width;
			const int from = b * width < k ? b * width : k, to = from + width < k ? from + width : k;
			if (from < to)
				add_steps(s, sum, a_tile, b_tile, x + from, k, y + (s.b_by_columns ? from : (long)from * n),
					s.b_by_columns ? k : n, m, n, to - from, row0, column0);
		}
		if ((b & 1) == 0) {
			EACH(one[i][j] = sum[i][j])
			continue;
		}
		EACH(sum[i][j] = one[i][j] + sum[i][j])
		if ((b & 2) == 0) {
			EACH(two[i][j] = sum[i][j])
			continue;
		}
		EACH(sum[i][j] = two[i][j] + sum[i][j])
		if ((b & 4) == 0) {
			EACH(four[i][j] = sum[i][j])
			continue;
		}
		EACH(sum[i][j] = four[i][j] + sum[i][j])
	}
	if (blocks > 1 && initial)
		EACH(sum[i][j] = sum[i][j] + ELEMENT_OF(initial, initial_step))
	EACH(ELEMENT_OF(c, n) = sum[i][j])
}

#define TREE(NAME, SIDE, BY_COLUMNS)                                                                               \
	SHARED float NAME##_a[2 * 8 * 16 * SIDE], NAME##_b[2 * 8 * 16 * SIDE];                                     \
	KERNEL NAME(out c, in initial, int initial_step, int m, int n, int blocks, in a0, in b0, int k0, int w0, in a1, \
		in b1, int k1, int w1, in a2, in b2, int k2, int w2) {                                             \
		const shape s = {16, 8, SIDE, SIDE, 1, BY_COLUMNS};                                                \
		const term t0 = {a0, b0, k0, w0}, t1 = {a1, b1, k1, w1}, t2 = {a2, b2, k2, w2};                    \
		tree(s, NAME##_a, NAME##_b, c, initial, initial_step, m, n, blocks, t0, t1, t2);                   \
	}

TREE(tree_plain, 4, 0)
TREE(tree_transposed, 4, 1)
TREE(tree_small, 1, 0)
TREE(tree_transposed_small, 1, 1)

// Lanes are the chains of an element in product_few, one for each k mod 16. CHUNK steps of k become one sum.
enum { LANES = 16, CHUNK = 256 };
SHARED float chains[THREADS];

// product_few is the product for n <= 4 and k >= 32, with A by rows. A block has 16 rows, with a thread for each lane.
// A chunk of k has sixteen chains that begin with 0. They are added as a tree, and then to the sum of the chunks
// before.
KERNEL product_few(out c, in a, in b, in bias, int m, int n, int k, int acc) {
	const int lane = THREAD % LANES, row = BLOCK_Y * (THREADS / LANES) + THREAD / LANES;
	for (int j = 0; j < n; j++) {
		float sum = 0.0f;
		if (lane == 0 && row < m)
			sum = acc ? c[(long)row * n + j] : bias ? bias[j] : 0.0f;
		for (int p = 0; p < k; p += CHUNK) {
			const int end = k - p < CHUNK ? k : p + CHUNK;
			float chain = 0.0f;
			for (int q = p; q < end; q += LANES) {
				const int at = q + lane, inside = row < m && at < end;
				chain = fma(inside ? a[(long)row * k + at] : 0.0f, inside ? b[(long)at * n + j] : 0.0f, chain);
			}
			chains[THREAD] = chain;
			BARRIER;
			if (lane == 0) {
				float l[8];
				UNROLL
				for (int i = 0; i < 8; i++)
					l[i] = chains[THREAD + i] + chains[THREAD + i + 8];
				sum = sum + (((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7])));
			}
			BARRIER;
		}
		if (lane == 0 && row < m)
			c[(long)row * n + j] = sum;
	}
}
