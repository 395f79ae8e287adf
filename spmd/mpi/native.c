//go:build mpi

// Runs the MPI library's own barrier, broadcast and allreduce. CALL makes blocking and non-blocking calls.

#include "inner.h"
#include "native.h"

#include <stdlib.h>
#include <string.h>

struct rl_native {
	rl_collective call;
	rl_world *w;
	MPI_Comm comm;
	MPI_Op bf16[RL_MAX + 1], u8[RL_MAX + 1];
	// The fields below belong to the collective that rl_native_start has started.
	MPI_Request req;
	char *data;
	int64_t at; // number of elements done
	int abandoned;
};

// rl_native_close waits at most CLOSE_NS for an abandoned collective. The library may need only a few calls to receive
// the last messages. But the collective never ends if another member does not join it.
enum { CLOSE_NS = 1000 * 1000 * 1000 };

// Two types do not use MPI's own reductions. MPI has no bfloat16, so a bfloat16 is sent as a 16-bit integer, which is
// the upper half of a float32. Its reductions compute in float32 and round to nearest, ties to even, like
// tensor.ToBF16. For unsigned bytes the libraries have bugs: Open MPI's sum saturates at 255 if the machine has AVX
// (open-mpi/ompi#8045), and the minimum and maximum of MPICH 4.0.2 treat 255 as -1.

static inline float widen(uint16_t b) {
	uint32_t bits = (uint32_t)b << 16;
	float f;
	memcpy(&f, &bits, sizeof f);
	return f;
}

static inline uint16_t narrow(float f) {
	uint32_t bits;
	memcpy(&bits, &f, sizeof bits);
	uint32_t upper = bits >> 16, rounded = (bits + 0x7fff + (upper & 1)) >> 16;
	int nan = (bits & 0x7fffffff) > 0x7f800000; // a NaN is not rounded, because rounding could give infinity
	return (uint16_t)(nan ? upper : rounded);
}

// Older compilers do not vectorise these loops at -O2. The AVX2 versions make bfloat16 three times as fast, with equal
// results. The loader selects them if the machine has AVX2.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define VECTORISED __attribute__((optimize("O3"), target_clones("avx2", "default")))
#elif defined(__GNUC__) && !defined(__clang__)
#define VECTORISED __attribute__((optimize("O3")))
#else
#define VECTORISED
#endif

// OP defines a reduction function. In its expr, a and b are the elements of the two members.
#define OP(name, type, read, write, expr)                                         \
	VECTORISED static void name(void *in, void *inout, int *len, MPI_Datatype *t) { \
		const type *restrict from = in;                                           \
		type *restrict to = inout;                                                \
		(void)t;                                                                  \
		for (int i = 0, n = *len; i < n; i++) {                                   \
			__typeof__(read(from[0])) a = read(from[i]), b = read(to[i]);         \
			to[i] = write(expr);                                                  \
		}                                                                         \
	}
#define OPS(name, type, read, write)                       \
	OP(name##_sum, type, read, write, a + b)               \
	OP(name##_prod, type, read, write, a * b)              \
	OP(name##_min, type, read, write, a < b ? a : b)       \
	OP(name##_max, type, read, write, a > b ? a : b)       \
	static MPI_User_function *const name##_ops[RL_MAX + 1] = {name##_sum, name##_prod, name##_min, name##_max};

OPS(bf16, uint16_t, widen, narrow)
OPS(u8, uint8_t, (uint8_t), (uint8_t))

int rl_native_open(rl_world *w, const int *ranks, int n, int tag, const char *name, rl_native **out,
	rl_collective **call, rl_fault *fault) {
	rl_native *x = calloc(1, sizeof *x);
	if (!x) return fault->call = "calloc", MPI_ERR_NO_MEM;
	x->w = w;
	x->req = MPI_REQUEST_NULL;
	int rc = rl_comm_create(w, ranks, n, tag, name, &x->comm, fault);
	if (rc != MPI_SUCCESS) return rc;
	for (int op = 0; op <= RL_MAX; op++) {
		TRY(MPI_Op_create(bf16_ops[op], 1, &x->bf16[op]));
		TRY(MPI_Op_create(u8_ops[op], 1, &x->u8[op]));
	}
	*out = x;
	*call = &x->call;
	return MPI_SUCCESS;
}

static const struct {
	MPI_Datatype mpi;
	int bytes;
} types[] = {
	[RL_F32] = {MPI_FLOAT, 4},   [RL_F64] = {MPI_DOUBLE, 8}, [RL_I32] = {MPI_INT32_T, 4},
	[RL_I64] = {MPI_INT64_T, 8}, [RL_U8] = {MPI_UINT8_T, 1}, [RL_BF16] = {MPI_UINT16_T, 2},
};

static MPI_Op op_of(const rl_native *x) {
	static const MPI_Op ops[] = {[RL_SUM] = MPI_SUM, [RL_PROD] = MPI_PROD, [RL_MIN] = MPI_MIN, [RL_MAX] = MPI_MAX};
	switch (x->call.dtype) {
	case RL_BF16: return x->bf16[x->call.op];
	case RL_U8: return x->u8[x->call.op];
	default: return ops[x->call.op];
	}
}

// CALL calls the non-blocking MPI_Ixyz(…, comm, req) if req is not NULL, and the blocking MPI_Xyz(…, comm) otherwise.
#define CALL(Xyz, ixyz, ...) (req ? MPI_##ixyz(__VA_ARGS__, x->comm, req) : MPI_##Xyz(__VA_ARGS__, x->comm))

// step makes the MPI call for the chunk that begins at element `at`.
static int step(rl_native *x, char *base, int64_t at, MPI_Request *req) {
	const rl_collective *c = &x->call;
	MPI_Datatype type = types[c->dtype].mpi;
	char *data = base ? base + at * types[c->dtype].bytes : NULL;
	int n = (int)(c->n - at < c->chunk ? c->n - at : c->chunk);
	switch (c->kind) {
	case RL_BARRIER: return req ? MPI_Ibarrier(x->comm, req) : MPI_Barrier(x->comm);
	case RL_BROADCAST: return CALL(Bcast, Ibcast, data, n, type, c->root);
	case RL_ALLREDUCE: return CALL(Allreduce, Iallreduce, MPI_IN_PLACE, data, n, type, op_of(x));
	default: return MPI_ERR_ARG;
	}
}

// more advances *at to the next chunk, and reports whether there is a next chunk.
static int more(const rl_native *x, int64_t *at) { return (*at += x->call.chunk) < x->call.n; }

static int run(rl_native *x, char *data) {
	int rc;
	int64_t at = 0;
	do rc = step(x, data, at, NULL);
	while (rc == MPI_SUCCESS && more(x, &at));
	return rc;
}

// after_call wakes the progress thread, since the library may still have to send its copy of a message. If the thread
// is already awake, this costs one load.
static int after_call(rl_native *x, int rc) {
	if (atomic_load(&atomic_load(&x->w->wake)->sleepers)) rl_wake_progress(x->w);
	return rc;
}

// Blocking calls do not count as waiters: the two atomic instructions would take a tenth of a small broadcast's time.
int rl_native_run(rl_native *x, void *data) { return after_call(x, run(x, data)); }

// test tests the request once, and starts the next step if it is done. It returns 0, RL_PENDING or an MPI error code.
static int test(rl_native *x) {
	int done = 0, rc = MPI_Test(&x->req, &done, MPI_STATUS_IGNORE);
	if (rc != MPI_SUCCESS) return rc;
	if (!done) return RL_PENDING;
	if (!more(x, &x->at)) return MPI_SUCCESS;
	rc = step(x, x->data, x->at, &x->req);
	return rc == MPI_SUCCESS ? RL_PENDING : rc;
}

int rl_native_start(rl_native *x, void *data) {
	x->data = data;
	x->at = 0;
	int rc = step(x, data, 0, &x->req);
	return rc == MPI_SUCCESS ? rl_native_wait(x, 0) : rc;
}

int rl_native_wait(rl_native *x, int slices) {
	int r = test(x);
	if (r != RL_PENDING) return after_call(x, r);
	int64_t before = (int64_t)slices * RL_SLICE_NS, start = rl_now(), waited = before;
	atomic_fetch_add(&x->w->waiters, 1);
	for (int round = 1; r == RL_PENDING && waited < before + RL_SLICE_NS; round++) {
		int paused = rl_pause(x->w, waited, NULL);
		r = test(x);
		if (paused || round % 8 == 0) waited = before + rl_now() - start;
	}
	atomic_fetch_sub(&x->w->waiters, 1);
	return after_call(x, r);
}

void rl_native_abandon(rl_native *x) {
	x->abandoned = 1;
	atomic_fetch_add(&x->w->sends, 1);
	rl_wake_progress(x->w);
}

int rl_native_time(rl_native *x, void *data, int batch, int samples, double *ns) {
	int rc = MPI_SUCCESS;
	for (int i = 0; i < samples && rc == MPI_SUCCESS; i++) {
		rc = MPI_Barrier(x->comm);
		int64_t start = rl_now();
		for (int j = 0; j < batch && rc == MPI_SUCCESS; j++) rc = run(x, data);
		ns[i] = (double)(rl_now() - start);
	}
	return after_call(x, rc);
}

int rl_native_close(rl_native *x) {
	int done = 0;
	for (int64_t start = rl_now(), waited = 0;; rl_pause(x->w, waited = rl_now() - start, NULL)) {
		MPI_Test(&x->req, &done, MPI_STATUS_IGNORE);
		if (done) break;
		if (waited > CLOSE_NS) return RL_PENDING;
	}
	if (x->abandoned) atomic_fetch_sub(&x->w->sends, 1);
	int rc = MPI_Comm_free(&x->comm);
	for (int op = 0; op <= RL_MAX; op++) {
		MPI_Op_free(&x->bf16[op]);
		MPI_Op_free(&x->u8[op]);
	}
	free(x);
	return rc;
}
