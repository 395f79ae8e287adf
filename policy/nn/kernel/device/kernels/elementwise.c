// Functions of each element, and of rows that one thread computes.
#include "functions.h"

// FUNCTION defines a kernel that sets each element of y to an expression of x.
#define FUNCTION(NAME, EXPRESSION)                                                                                 \
	KERNEL NAME(out y, in from, long n) {                                                                      \
		const long i = ELEMENT;                                                                            \
		if (i < n) {                                                                                       \
			const float x = from[i];                                                                   \
			y[i] = EXPRESSION;                                                                         \
		}                                                                                                  \
	}

FUNCTION(tanh_forward, tanh_of(x))
FUNCTION(relu_forward, relu_of(x))
FUNCTION(exp_forward, exp_of(x))
FUNCTION(log_forward, log_of(x))

// GRADIENT defines a kernel that sets each element of dx to an expression of d, the gradient of y, and of y.
#define GRADIENT(NAME, EXPRESSION)                                                                                 \
	KERNEL NAME(out dx, in dy, in from, long n) {                                                              \
		const long i = ELEMENT;                                                                            \
		if (i < n) {                                                                                       \
			const float d = dy[i], y = from[i];                                                        \
			dx[i] = EXPRESSION;                                                                        \
		}                                                                                                  \
	}

GRADIENT(tanh_gradient, d * (1.0f - y * y))
GRADIENT(relu_gradient, y <= 0.0f ? 0.0f : d)

// axpy adds a·x to y.
KERNEL axpy(out y, in x, float a, long n) {
	const long i = ELEMENT;
	if (i < n)
		y[i] = a * x[i] + y[i];
}

// scale sets y to a·x.
KERNEL scale(out y, in x, float a, long n) {
	const long i = ELEMENT;
	if (i < n)
		y[i] = x[i] * a;
}

// log_softmax sets each row of y [m,n] to x - log Σ e^x. A thread has a row, and adds its exponentials in order. The
// largest element is chosen as Go's max chooses it: NaN wins, and +0 is larger than -0.
KERNEL log_softmax(out y, in x, int m, int n) {
	const long i = ELEMENT;
	if (i >= m)
		return;
	x += i * n;
	y += i * n;
	float top = x[0];
	for (int j = 1; j < n; j++) {
		const float v = x[j];
		if (v == 0.0f && top == 0.0f)
			top = top + v;
		else if (v > top || v != v)
			top = v;
	}
	float sum = 0.0f;
	for (int j = 0; j < n; j++)
		sum = sum + exp_of(x[j] - top);
	sum = log_of(sum);
	for (int j = 0; j < n; j++)
		y[j] = (x[j] - top) - sum;
}

// normalize sets y [m,n] to (x - mean)·inv, limited to ±clip. mean and inv have an element for each column.
KERNEL normalize(out y, in x, in mean, in inv, int m, int n, float clip) {
	const long i = ELEMENT;
	if (i >= (long)m * n)
		return;
	const int j = (int)(i % n);
	float v = (x[i] - mean[j]) * inv[j];
	v = v < -clip ? -clip : v;
	y[i] = v > clip ? clip : v;
}
