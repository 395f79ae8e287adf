// Sums and copies of rows and of columns.
#include "kernel.h"

// column_sum sets sum [n] to the sum of the m rows of a, in order. With acc, it adds to sum.
KERNEL column_sum(out sum, in a, int m, int n, int acc) {
	const long j = ELEMENT;
	if (j >= n)
		return;
	float s = acc ? sum[j] : 0.0f;
	for (int i = 0; i < m; i++)
		s = s + a[(long)i * n + j];
	sum[j] = s;
}

// Rows and columns of a block that is transposed in shared memory. A row has one more word, so that the words of a
// column lie in different banks.
enum { SIDE = 32 };
SHARED float corner[SIDE][SIDE + 1];

// transpose sets y, matrices [n,m], to the transposes of the matrices x [m,n]. A row of blocks of the grid is a row of
// blocks of one matrix.
KERNEL transpose(out y, in x, int m, int n) {
	const int high = (m + SIDE - 1) / SIDE, row0 = BLOCK_Y % high * SIDE, col0 = BLOCK_X * SIDE;
	const long matrix = (long)(BLOCK_Y / high) * m * n;
	const int tx = THREAD % SIDE, ty = THREAD / SIDE;
	for (int i = ty; i < SIDE; i += THREADS / SIDE)
		if (row0 + i < m && col0 + tx < n)
			corner[i][tx] = x[matrix + (long)(row0 + i) * n + col0 + tx];
	BARRIER;
	for (int i = ty; i < SIDE; i += THREADS / SIDE)
		if (col0 + i < n && row0 + tx < m)
			y[matrix + (long)(col0 + i) * m + row0 + tx] = corner[tx][i];
}

// copy_columns copies width elements of each of n rows. Rows begin y_step and x_step elements apart.
KERNEL copy_columns(out y, int y_step, in x, int x_step, int width, int n) {
	const long i = ELEMENT, row = i / width, column = i % width;
	if (row < n)
		y[row * y_step + column] = x[row * x_step + column];
}

// add_columns adds width elements of each of n rows to y. Rows of y may overlap: a thread has one element of y, and
// adds the rows that have it in order.
KERNEL add_columns(out y, int y_step, in x, int x_step, int width, int n) {
	const long at = ELEMENT;
	if (at >= (long)(n - 1) * y_step + width)
		return;
	long first = 0, last = n - 1;
	if (y_step > 0) {
		first = at < width ? 0 : (at - width) / y_step + 1;
		last = at / y_step < last ? at / y_step : last;
	}
	for (long row = first; row <= last; row++)
		y[at] = x[row * x_step + at - row * y_step] + y[at];
}
