// Functions of one number. The operations and the polynomials are those of the vector code in package kernel.
#pragma once
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
