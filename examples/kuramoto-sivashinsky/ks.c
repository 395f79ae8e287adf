/*
 * ks integrates the Kuramoto-Sivashinsky equation, a chaotic flame front on a ring of length 22. Four actuators must
 * calm the front:
 *
 *	u_t = -u u_x - u_xx - u_xxxx + f(x, t),
 *	f = sum_i a_i(t) exp(-(x - X_i)^2 / 2 s^2) / sqrt(2 pi s), less its mean
 *
 * Eight sensors measure u. The reward is -(D + P): the dissipated power D, <u_xx^2>, and the supplied power P,
 * <u_x^2> + <u f>, both means over the ring and over the time of an action. This is the task of K. Zeng and M.
 * D. Graham, "Symmetry reduction for deep reinforcement learning active control of chaotic spatiotemporal dynamics",
 * Phys. Rev. E 104, 014210 (2021), on the system that M. A. Bucci et al. controlled, Proc. R. Soc. A 475, 20190351
 * (2019).
 *
 * ./ks is a child of rlinf. ./ks none and ./ks random play 20 episodes without rlinf, with no control or with random
 * actions, and print the mean return. FIELD=FILE names a file for the front of the first episode, a line per action,
 * including the time before the episode in which the front grows.
 */
#include "../../clients/c/rlb.h"

#include <complex.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 64, ACTUATORS = 4, SENSORS = 8, SUBSTEPS = 5, STEPS = 400, GROWTH = 200 };
static const double PI = 3.14159265358979323846, LENGTH = 22, DT = 0.05, WIDTH = 0.4;

/* A front is u in Fourier space, and the coefficients of a time step. */
typedef struct {
	double complex u[N], force[N], shape[ACTUATORS][N];
	double complex k[N];         /* the derivative, i times the wave number */
	double complex root[N / 2];  /* exp(2 pi i j / N) */
	double e[N], e2[N], q[N], f1[N], f2[N], f3[N];
	FILE *field;
} front;

/* fft is the discrete Fourier transform in place, by halves; the inverse is not divided by N. */
static void fft(const front *s, double complex *a, int sign)
{
	for (int i = 1, j = 0; i < N; i++) { /* the order of reversed bits */
		int bit = N / 2;
		for (; j & bit; bit /= 2)
			j ^= bit;
		j ^= bit;
		if (i < j) {
			double complex swap = a[i];
			a[i] = a[j];
			a[j] = swap;
		}
	}
	for (int half = 1; half < N; half *= 2) {
		for (int j = 0; j < half; j++) {
			double complex root = s->root[j * (N / 2 / half)], w = sign > 0 ? root : conj(root);
			for (int i = j; i < N; i += 2 * half) {
				double complex odd = w * a[i + half];
				a[i + half] = a[i] - odd;
				a[i] += odd;
			}
		}
	}
}

/* prepare has the coefficients of ETDRK4 from means over a circle, after A.-K. Kassam and L. N. Trefethen, SIAM J. Sci.
 * Comput. 26, 1214 (2005). */
static void prepare(front *s)
{
	memset(s, 0, sizeof *s);
	for (int j = 0; j < N; j++) {
		double k = 2 * PI / LENGTH * (j < N / 2 ? j : j - N), lambda = k * k - k * k * k * k;
		s->k[j] = j == N / 2 ? 0 : I * k;
		s->e[j] = exp(DT * lambda);
		s->e2[j] = exp(DT * lambda / 2);
		for (int m = 0; m < 32; m++) {
			double complex z = DT * lambda + cexp(I * PI * (m + 0.5) / 16), e = cexp(z);
			s->q[j] += DT / 32 * creal((cexp(z / 2) - 1) / z);
			s->f1[j] += DT / 32 * creal((-4 - z + e * (4 - 3 * z + z * z)) / (z * z * z));
			s->f2[j] += DT / 32 * creal((2 + z + e * (z - 2)) / (z * z * z));
			s->f3[j] += DT / 32 * creal((-4 - 3 * z - z * z + e * (4 - z)) / (z * z * z));
		}
	}
	for (int j = 0; j < N / 2; j++)
		s->root[j] = cexp(2 * PI * I * j / N);
	for (int i = 0; i < ACTUATORS; i++) {
		for (int j = 0; j < N; j++) {
			double d = remainder(LENGTH * j / N - LENGTH * i / ACTUATORS, LENGTH);
			s->shape[i][j] = exp(-d * d / (2 * WIDTH * WIDTH)) / sqrt(2 * PI * WIDTH);
		}
		fft(s, s->shape[i], -1);
		s->shape[i][0] = 0;
	}
}

/* nonlinear computes -u u_x + f for the front v. */
static void nonlinear(const front *s, const double complex *v, double complex *out)
{
	memcpy(out, v, N * sizeof *v);
	fft(s, out, 1);
	for (int j = 0; j < N; j++)
		out[j] = creal(out[j]) * creal(out[j]) / N / N;
	fft(s, out, -1);
	for (int j = 0; j < N; j++)
		out[j] = s->force[j] - 0.5 * s->k[j] * out[j];
}

static void step_in_time(front *s)
{
	double complex a[N], b[N], c[N], nu[N], na[N], nb[N], nc[N];
	nonlinear(s, s->u, nu);
	for (int j = 0; j < N; j++)
		a[j] = s->e2[j] * s->u[j] + s->q[j] * nu[j];
	nonlinear(s, a, na);
	for (int j = 0; j < N; j++)
		b[j] = s->e2[j] * s->u[j] + s->q[j] * na[j];
	nonlinear(s, b, nb);
	for (int j = 0; j < N; j++)
		c[j] = s->e2[j] * a[j] + s->q[j] * (2 * nb[j] - nu[j]);
	nonlinear(s, c, nc);
	for (int j = 0; j < N; j++)
		s->u[j] = s->e[j] * s->u[j] + s->f1[j] * nu[j] + 2 * s->f2[j] * (na[j] + nb[j]) + s->f3[j] * nc[j];
}

/* power returns D + P of the current front. */
static double power(const front *s)
{
	double sum = 0;
	for (int j = 0; j < N; j++) {
		double k = cimag(s->k[j]), energy = creal(s->u[j] * conj(s->u[j]));
		sum += (k * k * k * k + k * k) * energy + creal(s->u[j] * conj(s->force[j]));
	}
	return sum / N / N;
}

static void look(const front *s, double *sensors)
{
	double complex u[N];
	memcpy(u, s->u, sizeof u);
	fft(s, u, 1);
	for (int i = 0; i < SENSORS; i++)
		sensors[i] = creal(u[i * N / SENSORS]) / N;
	if (s->field != NULL)
		for (int j = 0; j < N; j++)
			fprintf(s->field, "%.4g%c", creal(u[j]) / N, j == N - 1 ? '\n' : ',');
}

/* advance takes an action and returns its reward. */
static double advance(front *s, const double *action, double *sensors)
{
	double sum = 0;
	for (int j = 0; j < N; j++) {
		s->force[j] = 0;
		for (int i = 0; i < ACTUATORS; i++)
			s->force[j] += fmax(-1, fmin(1, action[i])) * s->shape[i][j];
	}
	for (int i = 0; i < SUBSTEPS; i++) {
		step_in_time(s);
		sum += power(s);
	}
	look(s, sensors);
	return -sum / SUBSTEPS;
}

/* draw returns a number in [-1, 1): the next of a linear congruential sequence of 64 bits, after Knuth. */
static double draw(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (double)(*state >> 11) / (double)(1ull << 52) - 1;
}

/* begin makes a random front and lets it grow for 50 units of time, until it has forgotten its start. */
static void begin(front *s, uint64_t seed, double *sensors)
{
	static const double rest[ACTUATORS];
	uint64_t random = seed;
	for (int j = 0; j < N; j++)
		s->u[j] = draw(&random);
	fft(s, s->u, -1);
	s->u[0] = 0;
	for (int t = 0; t < GROWTH; t++)
		advance(s, rest, sensors);
}

/* play returns the mean return of 20 episodes with no control, or with random actions. */
static double play(front *s, int random)
{
	double sensors[SENSORS], action[ACTUATORS] = {0}, sum = 0;
	uint64_t state = 1;
	for (int episode = 0; episode < 20; episode++) {
		begin(s, 1000 + episode, sensors);
		for (int t = 0; t < STEPS; t++) {
			for (int i = 0; i < ACTUATORS && random; i++)
				action[i] = draw(&state);
			sum += advance(s, action, sensors) / 20;
		}
	}
	return sum;
}

int main(int argc, char **argv)
{
	static front s;
	prepare(&s);
	if (argc > 1) {
		printf("%s: mean return %.1f\n", argv[1], play(&s, strcmp(argv[1], "random") == 0));
		return 0;
	}
	if (getenv("FIELD") != NULL)
		s.field = fopen(getenv("FIELD"), "w");

	rlb_spec spec = {.name = "Kuramoto-Sivashinsky", .obs = {{.name = "state", .kind = RLB_F64, .shape = {SENSORS}}},
	                 .action = {.kind = RLB_F64, .shape = {ACTUATORS}, .low = -1, .high = 1}, .max_steps = STEPS};
	double sensors[SENSORS], action[ACTUATORS];
	rlb *r = rlb_open(&spec);
	for (int going = r != NULL ? 0 : -1; going >= 0;) {
		begin(&s, rlb_seed(r), sensors);
		rlb_send_init(r, sensors);
		while ((going = rlb_recv_action(r, action)) == 1) {
			double reward = advance(&s, action, sensors);
			rlb_send_state(r, sensors, reward);
		}
		if (s.field != NULL)
			fclose(s.field);
		s.field = NULL;
	}
	if (rlb_error() != NULL)
		fprintf(stderr, "ks: %s\n", rlb_error());
	rlb_close(r);
	return rlb_error() != NULL;
}
