// Attention of packed sequences, and its gradients. Queries, keys and values are rows of tokens, with heads side by
// side. A tile is a range of the tokens of one sequence.
#include "functions.h"

typedef const GLOBAL int *numbers;

// A block has QUERIES queries of one head, and takes KEYS keys at a time. It reads SLICE elements of rows at a time for
// scores, and COLUMNS of them for sums of rows.
enum { QUERIES = 32, KEYS = 64, SLICE = 16, COLUMNS = 32, PER_ROW = THREADS / QUERIES, LANES = 16 };
typedef __attribute__((address_space(3))) float (*table)[KEYS + 1];
SHARED float scores[QUERIES][KEYS + 1], slopes[QUERIES][KEYS + 1];
SHARED float left[QUERIES][SLICE + 1], right[KEYS][SLICE + 1], slice[KEYS][COLUMNS + 1];
SHARED float lanes[QUERIES][PER_ROW], decays[QUERIES];

// A tile of queries. Row r attends to the first `first + r·growth` keys of its sequence.
typedef struct {
	int row, rows, start, first, growth, last; // last: number of keys of the last row
} tile;

INLINE tile tile_at(numbers tiles, int i) {
	tiles += 5 * i;
	const tile t = {tiles[0], tiles[1], tiles[2], tiles[3], tiles[4], tiles[3] + (tiles[1] - 1) * tiles[4]};
	return t;
}

INLINE int at_most(int x, int most) { return x < most ? x : most; }

// multiply sets to[r][c] to the product of row r of a and row c of b, which have e elements: a chain over the elements.
// Rows begin step elements apart. There are at most 32 rows of a, and at most wide rows of b.
INLINE void multiply(table to, in a, int a_step, int rows, in b, int b_step, int columns, const int wide, int e) {
	const int t = THREAD, r0 = t / 16 * 2, c0 = t % 16;
	float sum[2][KEYS / 16] = {};
	for (int p = 0; p < e; p += SLICE) {
		BARRIER;
		for (int i = t; i < QUERIES * SLICE; i += THREADS) {
			const int r = i / SLICE, q = p + i % SLICE;
			left[r][i % SLICE] = r < rows && q < e ? a[(long)r * a_step + q] : 0.0f;
		}
		for (int i = t; i < wide * SLICE; i += THREADS) {
			const int c = i / SLICE, q = p + i % SLICE;
			right[c][i % SLICE] = c < columns && q < e ? b[(long)c * b_step + q] : 0.0f;
		}
		BARRIER;
		for (int q = 0; q < at_most(SLICE, e - p); q++)
			UNROLL
			for (int i = 0; i < 2; i++)
				UNROLL
				for (int j = 0; j < wide / 16; j++)
					sum[i][j] = fma(left[r0 + i][q], right[c0 + 16 * j][q], sum[i][j]);
	}
	UNROLL
	for (int i = 0; i < 2; i++)
		UNROLL
		for (int j = 0; j < wide / 16; j++)
			to[r0 + i][c0 + 16 * j] = sum[i][j];
}

// add_rows sets row r of y to its old value times decays[r] plus the sum of the rows k of x times weights[r][k], or
// weights[k][r] with across: a chain over k for each of e elements. The old value is 0 without acc. A row has PER_ROW
// threads, which have the same elements in each call.
INLINE void add_rows(out y, int y_step, int rows, table weights, const int across, in x, int x_step, int count, int e,
	int acc) {
	const int t = THREAD, r = t / PER_ROW, c = t % PER_ROW;
	for (int column = 0; column < e; column += COLUMNS) {
		BARRIER;
		for (int i = t; i < count * COLUMNS; i += THREADS) {
			const int k = i / COLUMNS, j = i % COLUMNS;
			slice[k][j] = column + j < e ? x[(long)k * x_step + column + j] : 0.0f;
		}
		BARRIER;
		UNROLL
		for (int j = 0; j < COLUMNS / PER_ROW; j++) {
			const int at = c + j * PER_ROW;
			if (r >= rows || column + at >= e)
				continue;
			out to = y + (long)r * y_step + column + at;
			float sum = acc ? *to * decays[r] : 0.0f;
			for (int k = 0; k < count; k++)
				sum = fma(across ? weights[k][r] : weights[r][k], slice[k][at], sum);
			*to = sum;
		}
	}
}

// fold returns the sum of sixteen lanes of a row, added as a tree of halves, or their maximum. A thread has the lanes
// t and t + 8 of its row.
INLINE float fold(float low, float high, int maximum) {
	const int r = THREAD / PER_ROW;
	BARRIER; // the lanes of the last fold are read
	lanes[r][THREAD % PER_ROW] = !maximum ? low + high : low > high ? low : high;
	BARRIER;
	float l[PER_ROW];
	UNROLL
	for (int i = 0; i < PER_ROW; i++)
		l[i] = lanes[r][i];
	UNROLL
	for (int half = PER_ROW / 2; half > 0; half /= 2)
		UNROLL
		for (int i = 0; i < half; i++)
			l[i] = !maximum ? l[i] + l[i + half] : l[i] > l[i + half] ? l[i] : l[i + half];
	return l[0];
}

// attend computes the output o and lse [heads,n], log Σ e^score, of a tile of queries of one head. The softmax runs
// over blocks of keys, as kernel.SoftmaxBlock. A row has eight threads, and sixteen lanes for its maximum and its sum.
KERNEL attend(out o, out lse, in q, in keys, in values, numbers tiles, int n, int heads, int key_heads, int e) {
	const tile s = tile_at(tiles, BLOCK_X);
	const int head = BLOCK_Y, width = heads * e, key_width = key_heads * e;
	const int r = THREAD / PER_ROW, lane = THREAD % PER_ROW;
	const long first = (long)s.row * width + head * e;
	const long first_key = (long)s.start * key_width + head / (heads / key_heads) * e;
	float top = -__builtin_inff(), sum = 0.0f;
	for (int at = 0; at < s.last; at += KEYS) {
		const int count = at_most(KEYS, s.last - at), shown = at_most(s.first + r * s.growth - at, count);
		multiply(scores, q + first, width, s.rows, keys + first_key + (long)at * key_width, key_width, count, KEYS, e);
		BARRIER;
		const int room = (count + LANES - 1) / LANES * LANES; // sixteen lanes also have the keys that are not there
		float max[2] = {top, top}, part[2] = {0.0f, 0.0f};
		for (int c = lane; c < room; c += LANES) {
			UNROLL
			for (int h = 0; h < 2; h++) {
				const float x = c + 8 * h < shown ? scores[r][c + 8 * h] : -__builtin_inff();
				max[h] = max[h] > x ? max[h] : x;
			}
		}
		const float old = top;
		top = fold(max[0], max[1], 1);
		for (int c = lane; c < room; c += LANES) {
			UNROLL
			for (int h = 0; h < 2; h++) {
				const float x = c + 8 * h < shown ? exp_of(scores[r][c + 8 * h] - top) : 0.0f;
				scores[r][c + 8 * h] = x;
				part[h] = part[h] + x;
			}
		}
		const float more = fold(part[0], part[1], 0), decay = exp_of(old - top);
		sum = at == 0 ? more : sum * decay + more;
		if (lane == 0)
			decays[r] = decay;
		add_rows(o + first, width, s.rows, scores, 0, values + first_key + (long)at * key_width, key_width, count, e,
			at > 0);
	}
	if (r >= s.rows)
		return;
	for (int c = lane; c < e; c += PER_ROW) {
		out to = o + first + (long)r * width + c;
		*to = *to * (1.0f / sum);
	}
	if (lane == 0)
		lse[(long)head * n + s.row + r] = top + log_of(sum);
}

// probabilities replaces scores by p = e^(score - lse), and slopes, the gradients of p, by p·(slope - mean). Key c of
// the block is at position at + c. Keys that a row does not attend to get 0.
INLINE void probabilities(const tile s, int at, int count, float lse, float mean) {
	const int r = THREAD / PER_ROW, shown = s.first + r * s.growth - at;
	BARRIER;
	for (int c = THREAD % PER_ROW; c < count; c += PER_ROW) {
		const float p = c < shown ? exp_of(scores[r][c] - lse) : 0.0f;
		scores[r][c] = p;
		slopes[r][c] = c < shown ? p * (slopes[r][c] - mean) : 0.0f;
	}
}

// attend_query_grad sets dq of a tile of queries of one head, and means [heads,n] to the products of rows of dout and
// o.
KERNEL attend_query_grad(out dq, out means, in q, in keys, in values, in o, in dout, in lse, numbers tiles, int n,
	int heads, int key_heads, int e) {
	const tile s = tile_at(tiles, BLOCK_X);
	const int head = BLOCK_Y, width = heads * e, key_width = key_heads * e;
	const int r = THREAD / PER_ROW, lane = THREAD % PER_ROW;
	const long first = (long)s.row * width + head * e, own = (long)head * n + s.row + r;
	const long first_key = (long)s.start * key_width + head / (heads / key_heads) * e;
	float part[2] = {0.0f, 0.0f};
	for (int c = lane; c < e && r < s.rows; c += LANES) {
		const long i = first + (long)r * width + c;
		part[0] = part[0] + dout[i] * o[i];
		if (c + 8 < e)
			part[1] = part[1] + dout[i + 8] * o[i + 8];
	}
	const float mean = fold(part[0], part[1], 0), own_lse = r < s.rows ? lse[own] : 0.0f;
	if (lane == 0)
		decays[r] = 1.0f;
	if (lane == 0 && r < s.rows)
		means[own] = mean;
	for (int at = 0; at < s.last; at += KEYS) {
		const int count = at_most(KEYS, s.last - at);
		const long key = first_key + (long)at * key_width;
		multiply(scores, q + first, width, s.rows, keys + key, key_width, count, KEYS, e);
		multiply(slopes, dout + first, width, s.rows, values + key, key_width, count, KEYS, e);
		probabilities(s, at, count, own_lse, mean);
		add_rows(dq + first, width, s.rows, slopes, 0, keys + key, key_width, count, e, at > 0);
	}
}

// attend_key_grad sets dkeys and dvalues of a tile of at most 32 keys of one key head. Sums run over the query heads of
// the key head, and over the tiles of queries in order. A tile of keys has its first row, its rows, its position in its
// sequence, and the range of the tiles of queries.
KERNEL attend_key_grad(out dkeys, out dvalues, in q, in keys, in values, in dout, in lse, in means, numbers tiles,
	numbers key_tiles, int n, int heads, int key_heads, int e) {
	const int group = heads / key_heads, width = heads * e, key_width = key_heads * e;
	key_tiles += 5 * BLOCK_X;
	const int rows = key_tiles[1], at = key_tiles[2], from = key_tiles[3], to = key_tiles[4];
	const int r = THREAD / PER_ROW;
	const long first_key = (long)key_tiles[0] * key_width + BLOCK_Y * e;
	if (THREAD % PER_ROW == 0)
		decays[r] = 1.0f;
	for (int c = THREAD % PER_ROW; c < e && r < rows; c += PER_ROW) { // by the threads that will add to it
		dkeys[first_key + (long)r * key_width + c] = 0.0f;
		dvalues[first_key + (long)r * key_width + c] = 0.0f;
	}
	for (int head = BLOCK_Y * group; head < (BLOCK_Y + 1) * group; head++)
		for (int i = from; i < to; i++) {
			const tile s = tile_at(tiles, i);
			const int seen = at_most(rows, s.last - at);
			if (seen <= 0)
				continue;
			const long first = (long)s.row * width + head * e, own = (long)head * n + s.row + r;
			multiply(scores, q + first, width, s.rows, keys + first_key, key_width, rows, 32, e);
			multiply(slopes, dout + first, width, s.rows, values + first_key, key_width, rows, 32, e);
			probabilities(s, at, rows, r < s.rows ? lse[own] : 0.0f, r < s.rows ? means[own] : 0.0f);
			add_rows(dvalues + first_key, key_width, seen, scores, 1, dout + first, width, s.rows, e, 1);
			add_rows(dkeys + first_key, key_width, seen, slopes, 1, q + first, width, s.rows, e, 1);
		}
}
