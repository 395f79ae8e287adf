/*: add_product */
/* y [n] += x [m] · w [m, n] */
static void add_product(float *restrict y, const float *restrict x, const float *restrict w, int m, int n)
{
	int i = 0;
	for (; i + 4 <= m; i += 4, w += 4 * (size_t)n) {
		const float *w0 = w, *w1 = w0 + n, *w2 = w1 + n, *w3 = w2 + n;
		float x0 = x[i], x1 = x[i + 1], x2 = x[i + 2], x3 = x[i + 3];
		for (int j = 0; j < n; j++)
			y[j] += x0 * w0[j] + x1 * w1[j] + x2 * w2[j] + x3 * w3[j];
	}
	for (; i < m; i++, w += n)
		for (int j = 0; j < n; j++)
			y[j] += x[i] * w[j];
}

/*: dense add_product */
/* y [n] = x [m] · w [m, n] + b */
static void dense(float *y, const float *x, const float *w, const float *b, int m, int n)
{
	memcpy(y, b, (size_t)n * sizeof *y);
	add_product(y, x, w, m, n);
}

/*: bytes */
/* y = (x - low)·scale */
static void bytes(float *y, const uint8_t *x, const float *low, const float *scale, int n)
{
	for (int i = 0; i < n; i++)
		y[i] = ((float)x[i] - low[i]) * scale[i];
}

/*: limit */
static float limit(float x, float low, float high) { return fminf(fmaxf(x, low), high); }

/*: affine */
/* y = (x - mean)·a + c */
static void affine(float *y, const float *x, const float *mean, const float *a, const float *c, int n)
{
	for (int i = 0; i < n; i++)
		y[i] = (x[i] - mean[i]) * a[i] + c[i];
}

/*: one_hot */
static void one_hot(float *y, const int32_t *choices, const int32_t *zero, int places, int from, int n)
{
	for (int i = from; i < n; i++)
		y[i] = 0;
	for (int k = 0; k < places; k++)
		y[zero[k] + choices[k]] = 1;
}

/*: pixels */
/* The frames [frames, pixels, c] become the channels of one image [pixels, frames·c]. */
static void pixels(float *y, const uint8_t *x, double low, double high, int frames, int count, int c)
{
	float table[256];
	for (int b = 0; b < 256; b++)
		table[b] = (float)(low + (high - low) * (b / 255.0));
	for (int f = 0; f < frames; f++)
		for (int i = 0; i < count; i++)
			for (int k = 0; k < c; k++)
				y[(i * frames + f) * c + k] = table[*x++];
}

/*: squash */
static void squash(float *y, const float *x, int n)
{
	for (int i = 0; i < n; i++)
		y[i] = tanhf(x[i]);
}

/*: rectify */
static void rectify(float *y, const float *x, int n)
{
	for (int i = 0; i < n; i++)
		y[i] = x[i] > 0 ? x[i] : 0;
}

/*: add */
static void add(float *y, const float *a, const float *b, int n)
{
	for (int i = 0; i < n; i++)
		y[i] = a[i] + b[i];
}

/*: modulate */
/* y = (1+γ)x + β for each channel; film has all γ, then all β */
static void modulate(float *y, const float *x, const float *film, int count, int c)
{
	for (int i = 0; i < count; i++)
		for (int k = 0; k < c; k++)
			y[i * c + k] = x[i * c + k] + film[k] * x[i * c + k] + film[c + k];
}

/*: layer_norm */
static void layer_norm(float *y, const float *x, const float *gamma, const float *beta, double epsilon, int n)
{
	double mean = 0, square = 0;
	for (int i = 0; i < n; i++)
		mean += x[i];
	mean /= n;
	for (int i = 0; i < n; i++)
		square += (x[i] - mean) * (x[i] - mean);
	double inverse = 1 / sqrt(square / n + epsilon);
	for (int i = 0; i < n; i++)
		y[i] = gamma[i] * (float)((x[i] - mean) * inverse) + beta[i];
}

/*: shape */
/* The shapes of a convolution or a pooling: images [h, w, c], and windows of size·size pixels. */
typedef struct {
	int h, w, c, out_h, out_w, out_c, size, stride, pad;
} shape;

/* range returns the part [from, to) of a window that starts at pixel first of n. */
static void range(int first, int n, int size, int *from, int *to)
{
	*from = first < 0 ? -first : 0;
	*to = first + size > n ? n - first : size;
}

/*: convolve shape add_product */
static void convolve(float *y, const float *x, const float *weight, const float *bias, const shape *s)
{
	for (int oy = 0; oy < s->out_h; oy++) {
		for (int ox = 0; ox < s->out_w; ox++, y += s->out_c) {
			int top = oy * s->stride - s->pad, left = ox * s->stride - s->pad, y0, y1, x0, x1;
			range(top, s->h, s->size, &y0, &y1);
			range(left, s->w, s->size, &x0, &x1);
			memcpy(y, bias, (size_t)s->out_c * sizeof *y);
			for (int k = y0; k < y1; k++)
				add_product(y, x + ((top + k) * s->w + left + x0) * s->c,
					weight + (size_t)((k * s->size + x0) * s->c) * (size_t)s->out_c, (x1 - x0) * s->c, s->out_c);
		}
	}
}

/*: max_pool shape */
static void max_pool(float *y, const float *x, const shape *s)
{
	for (int oy = 0; oy < s->out_h; oy++) {
		for (int ox = 0; ox < s->out_w; ox++, y += s->c) {
			int top = oy * s->stride - s->pad, left = ox * s->stride - s->pad, y0, y1, x0, x1;
			range(top, s->h, s->size, &y0, &y1);
			range(left, s->w, s->size, &x0, &x1);
			for (int c = 0; c < s->c; c++)
				y[c] = -INFINITY;
			for (int k = y0; k < y1; k++)
				for (int l = x0; l < x1; l++)
					for (int c = 0; c < s->c; c++)
						y[c] = fmaxf(y[c], x[((top + k) * s->w + left + l) * s->c + c]);
		}
	}
}

/*: centre */
/* centre returns the position of pixel i of a line of n, in [-1, 1]. */
static float centre(int i, int n) { return (float)(2 * i + 1) / (float)n - 1; }

/*: coordinates centre */
static void coordinates(float *y, const float *x, int h, int w, int c)
{
	for (int i = 0; i < h * w; i++, y += c + 2, x += c) {
		memcpy(y, x, (size_t)c * sizeof *y);
		y[c] = centre(i % w, w);
		y[c + 1] = centre(i / w, h);
	}
}

/*: position centre */
/* position sets x and y to the mean position by the softmax of a channel: n = h·w numbers, step elements apart. */
static void position(float *x, float *y, const float *u, int step, int h, int w, double deviation, double epsilon)
{
	double mean = 0, square = 0, sum = 0, px = 0, py = 0;
	float top = -INFINITY;
	for (int i = 0; i < h * w; i++) {
		mean += u[i * step];
		top = fmaxf(top, u[i * step]);
	}
	mean /= h * w;
	for (int i = 0; i < h * w; i++)
		square += (u[i * step] - mean) * (u[i * step] - mean);
	double scale = deviation / sqrt(square / (h * w) + epsilon);
	for (int i = 0; i < h * w; i++) {
		double e = expf((float)(scale * ((double)u[i * step] - top)));
		sum += e;
		px += e * centre(i % w, w);
		py += e * centre(i / w, h);
	}
	*x = (float)(px / sum);
	*y = (float)(py / sum);
}

/*: soft_argmax position */
static void soft_argmax(float *y, const float *x, int h, int w, int c, double deviation, double epsilon)
{
	for (int k = 0; k < c; k++)
		position(y + k, y + c + k, x + k, c, h, w, deviation, epsilon);
}

/*: point position */
/* e has a row [c] for each option; q is memory for h·w numbers. */
static void point(float *y, const float *x, const float *e, const int32_t *choices, int none, int places, float *q,
	int h, int w, int c, double deviation, double epsilon)
{
	for (int place = 0; place < places; place++) {
		const float *row = e + (choices[place] - none) * c;
		y[place] = y[places + place] = 0;
		if (choices[place] == none)
			continue;
		for (int i = 0; i < h * w; i++) {
			q[i] = 0;
			for (int k = 0; k < c; k++)
				q[i] += x[i * c + k] * row[k];
		}
		position(y + place, y + places + place, q, 1, h, w, deviation, epsilon);
	}
}

/*: embed */
static void embed(float *y, const float *table, const int32_t *choices, const int32_t *zero, int places, int n)
{
	memset(y, 0, (size_t)n * sizeof *y);
	for (int k = 0; k < places; k++)
		for (int j = 0; j < n; j++)
			y[j] += table[(zero[k] + choices[k]) * n + j];
}

/*: sentence */
static void sentence(float *y, const float *table, const float *factors, const int32_t *choices, int none, int places,
	int n)
{
	memset(y, 0, (size_t)n * sizeof *y);
	for (int k = 0; k < places; k++)
		for (int j = 0; j < n && choices[k] != none; j++)
			y[j] += table[(choices[k] - none) * n + j] * factors[k * n + j];
}

/*: logistic */
static float logistic(float x) { return 0.5f + 0.5f * tanhf(0.5f * x); }

/*: gru dense logistic */
/* h [n] is the state. a and u are memory for 3n numbers, with the columns r, z, g. */
static void gru(float *h, const float *x, const float *w, const float *b, const float *v, const float *d, float *a,
	float *u, int m, int n)
{
	dense(a, x, w, b, m, 3 * n);
	dense(u, h, v, d, n, 3 * n);
	for (int i = 0; i < n; i++) {
		float r = logistic(a[i] + u[i]), z = logistic(a[n + i] + u[n + i]);
		float g = tanhf(a[2 * n + i] + r * u[2 * n + i]);
		h[i] = g + z * (h[i] - g);
	}
}

/*: lstm dense logistic */
/* h [n], c [n] are the state. a and u are memory for 4n numbers, with the columns i, f, o, g. */
static void lstm(float *h, const float *x, const float *w, const float *b, const float *v, const float *d, float *a,
	float *u, int m, int n)
{
	float *c = h + n;
	dense(a, x, w, b, m, 4 * n);
	dense(u, h, v, d, n, 4 * n);
	for (int i = 0; i < n; i++) {
		float in = logistic(a[i] + u[i]), forget = logistic(a[n + i] + u[n + i]);
		float out = logistic(a[2 * n + i] + u[2 * n + i]), g = tanhf(a[3 * n + i] + u[3 * n + i]);
		c[i] = forget * c[i] + in * g;
		h[i] = out * tanhf(c[i]);
	}
}

/*: bound limit */
static void bound(float *y, const float *x, const float *low, const float *high, int n)
{
	for (int i = 0; i < n; i++)
		y[i] = limit(x[i], low[i], high[i]);
}

/*: spread */
/* y = x + σ·noise */
static void spread(float *y, const float *x, const float *std, const float *noise, int n)
{
	for (int i = 0; i < n; i++)
		y[i] = x[i] + std[i] * noise[i];
}

/*: deviate */
/* y = x + σ·noise with log σ = low + half (tanh(x[n…] + shift) + 1) */
static void deviate(float *y, const float *x, float shift, double low, double half, const float *noise, int n)
{
	for (int i = 0; i < n; i++)
		y[i] = x[i] + (float)exp(low + half * (tanh(x[n + i] + shift) + 1)) * noise[i];
}

/*: largest */
/* largest returns the first option with the largest number that the mask allows; a NULL mask allows all. */
static int32_t largest(const float *x, const uint8_t *mask, int n)
{
	int32_t best = -1;
	for (int i = 0; i < n; i++)
		if ((mask == NULL || mask[i]) && (best < 0 || x[i] > x[best]))
			best = i;
	return best;
}

/*: draw largest */
/* draw returns the first option at which the sum of the probabilities exceeds u. */
static int32_t draw(const float *x, const uint8_t *mask, float u, int n)
{
	float top = x[largest(x, mask, n)];
	double sum = 0, left = u;
	int32_t last = 0;
	for (int i = 0; i < n; i++)
		if (mask == NULL || mask[i])
			sum += expf(x[i] - top);
	for (int i = 0; i < n; i++) {
		if (mask != NULL && !mask[i])
			continue;
		float prob = expf(x[i] - top) * (float)(1 / sum);
		if ((left -= prob) < 0)
			return i;
		if (prob > 0)
			last = i;
	}
	return last;
}

/*: push */
/* push appends a frame of size bytes to a stack of k. At the beginning of an episode all frames become this one. */
static void push(void *stack, const void *frame, int k, size_t size, int begins)
{
	unsigned char *at = stack;
	if (!begins)
		memmove(at, at + size, (size_t)(k - 1) * size);
	for (int i = begins ? 0 : k - 1; i < k; i++)
		memcpy(at + (size_t)i * size, frame, size);
}

/*: finite_all */
static int finite_all(const float *x, int n)
{
	for (int i = 0; i < n; i++)
		if (!isfinite(x[i]))
			return 0;
	return 1;
}

/*: within */
static int within(const int32_t *x, const int32_t *low, const int32_t *high, int n)
{
	for (int i = 0; i < n; i++)
		if (x[i] < low[i] || x[i] > high[i])
			return 0;
	return 1;
}

/*: open_mask */
static int open_mask(const uint8_t *mask, int n)
{
	for (int i = 0; i < n; i++)
		if (mask[i])
			return 1;
	return 0;
}
