// Functions of each element. The operations and the polynomials are those of the vector code in package kernel.
#include "kernel.h"

// A split is x = n·ln 2 + r. biased holds n in its low bits, and less is e^r - 1.
typedef struct {
	float n, r, less;
	unsigned biased;
} split;

INLINE split reduce(float x) {
	const float magic = 0x1.8p23f; // x + magic has round(x) in its low bits, for |x| < 2^22
	split s;
	float biased = fma(x, 0x1.715476p+00f, magic);
	s.n = biased - magic;
	s.biased = to_bits(biased);
	s.r = fma(-s.n, 0.693359375f, x);
	s.r = fma(-s.n, -0x1.bd0106p-13f, s.r);
	float q = 0x1.a124e4p-13f;
	q = fma(q, s.r, 0x1.6d4316p-10f);
	q = fma(q, s.r, 0x1.1110ep-07f);
	q = fma(q, s.r, 0x1.5554eap-05f);
	q = fma(q, s.r, 0x1.555556p-03f);
	q = fma(q, s.r, 0x1p-01f);
	s.less = fma(q, s.r * s.r, s.r);
	return s;
}

INLINE float exp_of(float x) {
	x = -105.0f > x ? -105.0f : x;
	x = 90.0f < x ? 90.0f : x;
	split s = reduce(x);
	int n = (int)(s.biased - 0x4b400000u), half = n >> 1;
	float y = s.less + 1.0f;
	y = y * from_bits(((unsigned)half << 23) + 0x3f800000u);
	return y * from_bits(((unsigned)(n - half) << 23) + 0x3f800000u);
}

INLINE float log_of(float x) {
	const int tiny = x < 0x1p-126f; // subnormals are scaled up
	unsigned bits = to_bits(tiny ? x * 0x1p25f : x);
	int n = (int)(bits - 0x3f3504f3u) >> 23;
	float e = (tiny ? -25.0f : 0.0f) + (float)n;
	float f = from_bits(bits - ((unsigned)n << 23)) - 1.0f, square = f * f;
	float p = 0x1.204376p-04f;
	p = fma(p, f, -0x1.d7a37p-04f);
	p = fma(p, f, 0x1.de4a34p-04f);
	p = fma(p, f, -0x1.fcba9ep-04f);
	p = fma(p, f, 0x1.23d37ep-03f);
	p = fma(p, f, -0x1.555cap-03f);
	p = fma(p, f, 0x1.999d58p-03f);
	p = fma(p, f, -0x1.fffff8p-03f);
	p = fma(p, f, 0x1.555554p-02f);
	p = p * f * square;
	p = fma(e, -0x1.bd0106p-13f, p);
	p = fma(-square, 0.5f, p);
	float y = fma(e, 0.693359375f, f + p);
	y = x == __builtin_inff() ? x : y;
	y = x == 0.0f ? -__builtin_inff() : y;
	return x >= 0.0f ? y : __builtin_nanf("");
}

INLINE float tanh_of(float x) {
	float z = x * x; // below ½·ln 3, tanh x is x + x³·p(x²)
	float p = 0x1.e191cap-09f;
	p = fma(p, z, -0x1.290e88p-07f);
	p = fma(p, z, 0x1.66437ep-06f);
	p = fma(p, z, -0x1.ba0d16p-05f);
	p = fma(p, z, 0x1.111112p-03f);
	p = fma(p, z, -0x1.555558p-02f);
	float low = fma(z * x, p, x);

	const unsigned sign = to_bits(x) & 0x80000000u;
	float twice = from_bits(to_bits(x) | 0x80000000u); // -2|x|, at least -20
	twice = twice + twice;
	twice = -20.0f > twice ? -20.0f : twice;
	split s = reduce(twice);
	float power = from_bits((s.biased << 23) + 0x3f800000u);
	float e = fma(s.less, power, power);
	float high = 1.0f - (e + e) / (e + 1.0f);
	return from_bits(to_bits(twice < -0x1.193ea8p+00f ? high : low) | sign);
}

INLINE float relu_of(float x) { return 0.0f > x ? 0.0f : x; }

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
