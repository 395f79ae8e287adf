/*
 * heat integrates the heat equation on a square plate, T_t = T_xx + T_yy + sources, on all processes of an MPI program:
 * each process has some rows of the plate. Nine heaters, which can also cool, must bring the plate to a profile T*, a
 * different one in each episode, while the temperatures of the edges change at random. The observation is T and T* at
 * the heaters. The reward is -<(T - T*)^2>, the mean over the plate.
 *
 * mpirun -np 1 rlinf -c heat.yaml : -np 4 ./heat is a job of rlinf. mpirun -np 4 ./heat none, or random, plays 20
 * episodes without rlinf, with no control or with random actions, and prints the mean return. FIELD=FILE names a file
 * for the plate at the end of the first episode, and its profile.
 *
 * With -DPOLICY the program has no part of rlinf but an exported policy: mpirun -np 4 ./steered policy.bin [SEED ...]
 * plays an episode for each seed, or 20 episodes.
 */
#ifdef POLICY
#include "policy.h"
#include <mpi.h>
#else
#include "../../clients/c/rlb_mpi.h"
#endif

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 32, SIDE = 3, HEATERS = SIDE * SIDE, SUBSTEPS = 10, STEPS = 100, WEATHER = 25 };
static const double DT = 0.2 / (N * N), WIDTH = 0.12, POWER = 60;

/* A plate is the part of one process: rows first to first + rows - 1 of N, with a row of another process, or an edge,
 * above and below. */
typedef struct {
	MPI_Comm comm;
	int rank, first, rows, above, below, clock;
	double T[N + 2][N + 2], next[N + 2][N + 2], target[N + 2][N + 2], source[N + 2][N + 2],
		heater[HEATERS][N + 2][N + 2];
	double edges[4];
	uint64_t random;
	const char *file;
} plate;

static double at(int i) { return (i + 0.5) / N; }

/* place returns the row or column of heater i of a side. */
static int place(int i) { return N * (i + 1) / (SIDE + 1); }

static void divide(plate *p, MPI_Comm comm)
{
	int size;
	memset(p, 0, sizeof *p);
	p->comm = comm;
	MPI_Comm_rank(comm, &p->rank);
	MPI_Comm_size(comm, &size);
	p->first = N * p->rank / size;
	p->rows = N * (p->rank + 1) / size - p->first;
	p->above = p->rank > 0 ? p->rank - 1 : MPI_PROC_NULL;
	p->below = p->rank < size - 1 ? p->rank + 1 : MPI_PROC_NULL;
	p->file = getenv("FIELD");
	for (int h = 0; h < HEATERS; h++) {
		for (int r = 1; r <= p->rows; r++) {
			for (int c = 1; c <= N; c++) {
				double dy = at(p->first + r - 1) - at(place(h / SIDE)), dx = at(c - 1) - at(place(h % SIDE));
				p->heater[h][r][c] = POWER * exp(-(dx * dx + dy * dy) / (2 * WIDTH * WIDTH));
			}
		}
	}
}

/* draw returns a number in [-1, 1): the next of a linear congruential sequence of 64 bits, after Knuth. */
static double draw(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (double)(*state >> 11) / (double)(1ull << 52) - 1;
}

/* exchange fills the rows above and below, and the columns at both sides, with rows of the neighbours or with edges. */
static void exchange(plate *p)
{
	double *top = p->T[0], *bottom = p->T[p->rows + 1];
	MPI_Sendrecv(p->T[1], N + 2, MPI_DOUBLE, p->above, 0, bottom, N + 2, MPI_DOUBLE, p->below, 0, p->comm,
		MPI_STATUS_IGNORE);
	MPI_Sendrecv(p->T[p->rows], N + 2, MPI_DOUBLE, p->below, 0, top, N + 2, MPI_DOUBLE, p->above, 0, p->comm,
		MPI_STATUS_IGNORE);
	for (int i = 0; i <= N + 1; i++) {
		if (p->above == MPI_PROC_NULL)
			top[i] = p->edges[0];
		if (p->below == MPI_PROC_NULL)
			bottom[i] = p->edges[1];
	}
	for (int r = 1; r <= p->rows; r++) {
		p->T[r][0] = p->edges[2];
		p->T[r][N + 1] = p->edges[3];
	}
}

/* measure gives the root the temperatures at the heaters, then the profile there, and the reward. */
static double measure(plate *p, double *seen)
{
	double mine[2 * HEATERS + 1] = {0}, all[2 * HEATERS + 1] = {0};
	for (int h = 0; h < HEATERS; h++) {
		int r = place(h / SIDE) - p->first + 1, c = place(h % SIDE) + 1;
		if (r >= 1 && r <= p->rows) {
			mine[h] = p->T[r][c];
			mine[HEATERS + h] = p->target[r][c];
		}
	}
	for (int r = 1; r <= p->rows; r++)
		for (int c = 1; c <= N; c++)
			mine[2 * HEATERS] += (p->T[r][c] - p->target[r][c]) * (p->T[r][c] - p->target[r][c]);
	MPI_Reduce(mine, all, 2 * HEATERS + 1, MPI_DOUBLE, MPI_SUM, 0, p->comm);
	memcpy(seen, all, 2 * HEATERS * sizeof *seen);
	return -all[2 * HEATERS] / (N * N);
}

/* begin makes a cold plate, a profile and edges. The seed determines them, alike on all processes. */
static void begin(plate *p, uint64_t seed, double *seen)
{
	p->random = seed;
	p->clock = 0;
	double mean = 0.75 + 0.25 * draw(&p->random), x = 0.5 * draw(&p->random), y = 0.5 * draw(&p->random);
	memset(p->T, 0, sizeof p->T);
	for (int r = 1; r <= p->rows; r++) {
		for (int c = 1; c <= N; c++) {
			double u = at(c - 1), v = at(p->first + r - 1);
			p->target[r][c] = 16 * u * (1 - u) * v * (1 - v) * (mean + x * (u - 0.5) + y * (v - 0.5));
		}
	}
	measure(p, seen);
}

/* write_field lets the root write the plate, a line per row, and then the profile. */
static void write_field(plate *p)
{
	for (int which = 0; which < 2; which++) {
		double whole[N][N + 2] = {{0}}, sum[N][N + 2];
		for (int r = 1; r <= p->rows; r++)
			memcpy(whole[p->first + r - 1], which == 0 ? p->T[r] : p->target[r], sizeof whole[0]);
		MPI_Reduce(whole, sum, N * (N + 2), MPI_DOUBLE, MPI_SUM, 0, p->comm);
		FILE *f = p->rank == 0 ? fopen(p->file, which == 0 ? "w" : "a") : NULL;
		for (int r = 0; f != NULL && r < N; r++)
			for (int c = 1; c <= N; c++)
				fprintf(f, "%.4g%c", sum[r][c], c == N ? '\n' : ',');
		if (f != NULL)
			fclose(f);
	}
	p->file = NULL;
}

/* advance takes an action. The root gets the reward and the observation. */
static double advance(plate *p, const double *action, double *seen)
{
	if (p->clock++ % WEATHER == 0)
		for (int i = 0; i < 4; i++)
			p->edges[i] = 0.3 * draw(&p->random);
	memset(p->source, 0, sizeof p->source);
	for (int h = 0; h < HEATERS; h++)
		for (int r = 1; r <= p->rows; r++)
			for (int c = 1; c <= N; c++)
				p->source[r][c] += fmax(-1, fmin(1, action[h])) * p->heater[h][r][c];
	for (int t = 0; t < SUBSTEPS; t++) {
		exchange(p);
		for (int r = 1; r <= p->rows; r++) {
			for (int c = 1; c <= N; c++) {
				double around = p->T[r - 1][c] + p->T[r + 1][c] + p->T[r][c - 1] + p->T[r][c + 1];
				double laplace = (around - 4 * p->T[r][c]) * N * N;
				p->next[r][c] = p->T[r][c] + DT * (laplace + p->source[r][c]);
			}
		}
		memcpy(p->T, p->next, sizeof p->T);
	}
	if (p->file != NULL && p->clock == STEPS)
		write_field(p);
	return measure(p, seen);
}

#ifdef POLICY

/* steer plays an episode for each seed, or 20 episodes. It returns the mean return. The root asks the policy. */
static double steer(plate *p, const policy *trained, int seeds, char **seed)
{
	static policy_state state;
	int episodes = seeds > 0 ? seeds : 20;
	double seen[2 * HEATERS], action[HEATERS], sum = 0;
	float observed[2 * HEATERS], chosen[HEATERS];
	for (int episode = 0; episode < episodes; episode++) {
		begin(p, seeds > 0 ? strtoull(seed[episode], NULL, 10) : 1000 + (uint64_t)episode, seen);
		policy_begin(&state);
		for (int t = 0; t < STEPS; t++) {
			if (p->rank == 0) {
				for (int i = 0; i < 2 * HEATERS; i++)
					observed[i] = (float)seen[i];
				int code = policy_act(trained, &state, observed, chosen);
				if (code != POLICY_OK) {
					fprintf(stderr, "heat: %s\n", policy_text(code));
					MPI_Abort(p->comm, 1);
				}
				for (int h = 0; h < HEATERS; h++)
					action[h] = chosen[h];
			}
			MPI_Bcast(action, HEATERS, MPI_DOUBLE, 0, p->comm);
			sum += advance(p, action, seen) / episodes;
		}
	}
	return sum;
}

int main(int argc, char **argv)
{
	static plate p;
	policy *trained;
	MPI_Init(&argc, &argv);
	int code = policy_open(&trained, argc > 1 ? argv[1] : "policy.bin");
	if (code != POLICY_OK) {
		fprintf(stderr, "heat: %s\n", policy_text(code));
		MPI_Abort(MPI_COMM_WORLD, 1);
	}
	divide(&p, MPI_COMM_WORLD);
	double mean = steer(&p, trained, argc - 2, argv + 2);
	if (p.rank == 0)
		printf("policy: mean return %.6g\n", mean);
	policy_close(trained);
	MPI_Finalize();
	return 0;
}

#else

/* play returns the mean return of 20 episodes with no control, or with random actions. */
static double play(plate *p, int random)
{
	double seen[2 * HEATERS], action[HEATERS] = {0}, sum = 0;
	uint64_t state = 1;
	for (int episode = 0; episode < 20; episode++) {
		begin(p, 1000 + episode, seen);
		for (int t = 0; t < STEPS; t++) {
			for (int h = 0; h < HEATERS && random; h++)
				action[h] = draw(&state);
			sum += advance(p, action, seen) / 20;
		}
	}
	return sum;
}

/* control plays for rlinf until the job is over, and returns whether it succeeded. */
static int control(plate *p)
{
	rlb_spec spec = {.name = "heat", .obs = {{.name = "state", .kind = RLB_F64, .shape = {2 * HEATERS}}},
	                 .action = {.kind = RLB_F64, .shape = {HEATERS}, .low = -1, .high = 1}, .max_steps = STEPS};
	double seen[2 * HEATERS], action[HEATERS], reward;
	rlb_mpi m;
	int going = rlb_mpi_open(&spec, &m);
	if (going >= 0)
		divide(p, m.comm);
	while (going >= 0) {
		begin(p, rlb_mpi_seed(&m), seen);
		rlb_mpi_send_init(&m, seen);
		while ((going = rlb_mpi_recv_action(&m, action)) == 1) {
			reward = advance(p, action, seen);
			rlb_mpi_send_state(&m, seen, reward);
		}
	}
	int failed = rlb_error() != NULL;
	if (failed)
		fprintf(stderr, "heat: %s\n", rlb_error());
	rlb_mpi_close(&m);
	return failed;
}

int main(int argc, char **argv)
{
	static plate p;
	int failed = 0;
	MPI_Init(&argc, &argv);
	if (argc > 1) {
		divide(&p, MPI_COMM_WORLD);
		double mean = play(&p, strcmp(argv[1], "random") == 0);
		if (p.rank == 0)
			printf("%s: mean return %.1f\n", argv[1], mean);
	} else {
		failed = control(&p);
	}
	MPI_Finalize();
	return failed;
}

#endif
