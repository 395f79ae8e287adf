//go:build mpi

// Runs the MPI library's own collectives. Blocking and non-blocking collectives share the code: see CALL.

#include "inner.h"
#include "native.h"

#include <stdlib.h>
#include <string.h>

struct rl_native {
	rl_collective call;
	rl_world *w;
	MPI_Comm comm;
	int rank, size;
	MPI_Op bf16[RL_MAX + 1], u8[RL_MAX + 1];
	char *scratch; // memory for operations that MPI cannot make in place
	int64_t room;
	// The fields below belong to the collective that rl_native_start has started.
	MPI_Request reqs[2];
	char *data, *send;
	int64_t at;        // number of elements done
	int short_message; // SENDRECV received a message that is shorter than the data
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
	int *table = calloc(4 * (size_t)n, sizeof *table);
	if (!x || !table) return fault->call = "calloc", MPI_ERR_NO_MEM;
	x->w = w;
	x->call.counts = table;
	x->call.displs = table + n;
	x->call.send_counts = table + 2 * n;
	x->call.send_displs = table + 3 * n;
	x->reqs[0] = x->reqs[1] = MPI_REQUEST_NULL;
	int rc = rl_comm_create(w, ranks, n, tag, name, &x->comm, fault);
	if (rc != MPI_SUCCESS) return rc;
	TRY(MPI_Comm_rank(x->comm, &x->rank));
	TRY(MPI_Comm_size(x->comm, &x->size));
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

static MPI_Datatype type_of(const rl_native *x) { return types[x->call.dtype].mpi; }

static int64_t size_of(const rl_native *x) { return types[x->call.dtype].bytes; }

static MPI_Op op_of(const rl_native *x) {
	static const MPI_Op ops[] = {[RL_SUM] = MPI_SUM, [RL_PROD] = MPI_PROD, [RL_MIN] = MPI_MIN, [RL_MAX] = MPI_MAX};
	switch (x->call.dtype) {
	case RL_BF16: return x->bf16[x->call.op];
	case RL_U8: return x->u8[x->call.op];
	default: return ops[x->call.op];
	}
}

// chunk_at returns the number of elements in the MPI call that starts at element `at`, where n is the total.
static int chunk_at(const rl_native *x, int64_t n, int64_t at) {
	int64_t rest = n - at;
	return (int)(rest < 0 ? 0 : rest < x->call.chunk ? rest : x->call.chunk);
}

// exchange makes the next call of a SENDRECV. Each direction takes one or more messages, depending on its number
// of elements. A direction that has no elements left uses MPI_PROC_NULL.
static int exchange(rl_native *x, char *data, char *send, int64_t at, MPI_Request *reqs) {
	const rl_collective *c = &x->call;
	MPI_Datatype type = type_of(x);
	int out = chunk_at(x, c->sent, at), in = chunk_at(x, c->n, at);
	int to = out || !at ? c->to : MPI_PROC_NULL, from = in || !at ? c->from : MPI_PROC_NULL;
	if (!reqs) {
		MPI_Status st;
		int rc = MPI_Sendrecv(send, out, type, to, 0, data, in, type, from, 0, x->comm, &st), got = in;
		if (rc == MPI_SUCCESS && in) rc = MPI_Get_count(&st, type, &got);
		x->call.got = at + got;
		return rc == MPI_SUCCESS && got != in ? RL_SHORT_MESSAGE : rc;
	}
	int rc = MPI_Irecv(data, in, type, from, 0, x->comm, &reqs[0]);
	return rc != MPI_SUCCESS ? rc : MPI_Isend(send, out, type, to, 0, x->comm, &reqs[1]);
}

static char *scratch_for(rl_native *x, int64_t bytes) {
	if (bytes < x->room) return x->scratch;
	free(x->scratch);
	x->room = bytes + 1; // not 0, because malloc(0) may return NULL
	if (!(x->scratch = malloc((size_t)x->room))) x->room = 0;
	return x->scratch;
}

// MPICH before 4.3 may crash in an in-place MPI_Reduce if the root is not member 0 (pmodels/mpich#6540, #6893).
// MPI_Ireduce does not crash.
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40300000
enum { ROOT_IN_PLACE = 0 };
#else
enum { ROOT_IN_PLACE = 1 };
#endif

// reduce_at_root makes the root's blocking MPI_Reduce.
static int reduce_at_root(rl_native *x, char *data, int n, MPI_Datatype type, MPI_Op op) {
	int root = x->call.root;
	if (ROOT_IN_PLACE || root == 0) return MPI_Reduce(MPI_IN_PLACE, data, n, type, op, root, x->comm);
	int64_t bytes = n * size_of(x);
	if (!scratch_for(x, bytes)) return MPI_ERR_NO_MEM;
	memcpy(x->scratch, data, (size_t)bytes);
	return MPI_Reduce(x->scratch, data, n, type, op, root, x->comm);
}

// CALL calls the non-blocking MPI_Ixyz(…, comm, reqs) if reqs is not NULL, and the blocking MPI_Xyz(…, comm) otherwise.
#define CALL(Xyz, ixyz, ...) (reqs ? MPI_##ixyz(__VA_ARGS__, x->comm, reqs) : MPI_##Xyz(__VA_ARGS__, x->comm))

// own_block returns the offset of this member's block in a reduce-scatter, and sets *bytes to its length. Both are in
// bytes.
static int64_t own_block(const rl_native *x, int64_t *bytes) {
	const rl_collective *c = &x->call;
	*bytes = (c->uneven ? c->counts[x->rank] : c->block) * size_of(x);
	return (c->uneven ? c->displs[x->rank] : x->rank * c->block) * size_of(x);
}

// reduce_scatter writes the block to the scratch memory, from which place_block copies it. MPI's in-place form would
// need the copy too, because it writes the block to the start of the data. Moreover, MPICH 4.0.2 fails if the block
// overlaps that start.
static int reduce_scatter(rl_native *x, char *data, MPI_Request *reqs) {
	const rl_collective *c = &x->call;
	MPI_Datatype type = type_of(x);
	int64_t bytes;
	own_block(x, &bytes);
	char *block = scratch_for(x, bytes);
	if (!block) return MPI_ERR_NO_MEM;
	if (c->uneven) return CALL(Reduce_scatter, Ireduce_scatter, data, block, c->counts, type, op_of(x));
	return CALL(Reduce_scatter_block, Ireduce_scatter_block, data, block, (int)c->block, type, op_of(x));
}

// step makes the next MPI call of a collective. If the collective can be split, the call handles the chunk that begins
// at element `at`. Otherwise it handles all elements.
static int step(rl_native *x, char *base, char *send, int64_t at, MPI_Request *reqs) {
	const rl_collective *c = &x->call;
	MPI_Datatype type = type_of(x);
	void *own;
	char *data = base ? base + at * size_of(x) : NULL;
	int n = chunk_at(x, c->n, at), block = (int)c->block, is_root = c->root == x->rank;
	switch (c->kind) {
	case RL_BARRIER: return reqs ? MPI_Ibarrier(x->comm, reqs) : MPI_Barrier(x->comm);
	case RL_BROADCAST: return CALL(Bcast, Ibcast, data, n, type, c->root);
	case RL_REDUCE:
		if (is_root && !reqs) return reduce_at_root(x, data, n, type, op_of(x));
		if (is_root) return MPI_Ireduce(MPI_IN_PLACE, data, n, type, op_of(x), c->root, x->comm, reqs);
		return CALL(Reduce, Ireduce, data, NULL, n, type, op_of(x), c->root);
	case RL_ALLREDUCE: return CALL(Allreduce, Iallreduce, MPI_IN_PLACE, data, n, type, op_of(x));
	case RL_REDUCE_SCATTER: return reduce_scatter(x, data, reqs);
	case RL_ALLGATHER:
		if (c->uneven) return CALL(Allgatherv, Iallgatherv, MPI_IN_PLACE, 0, type, data, c->counts, c->displs, type);
		return CALL(Allgather, Iallgather, MPI_IN_PLACE, 0, type, data, block, type);
	case RL_GATHER: // all members pass the arguments of the root, and MPI ignores them on other members
		own = is_root ? MPI_IN_PLACE : data;
		if (c->uneven)
			return CALL(Gatherv, Igatherv, own, (int)c->n, type, data, c->counts, c->displs, type, c->root);
		return CALL(Gather, Igather, own, block, type, data, block, type, c->root);
	case RL_SCATTER:
		own = is_root ? MPI_IN_PLACE : data;
		if (c->uneven)
			return CALL(Scatterv, Iscatterv, data, c->counts, c->displs, type, own, (int)c->n, type, c->root);
		return CALL(Scatter, Iscatter, data, block, type, own, block, type, c->root);
	case RL_ALLTOALL:
		if (c->uneven)
			return CALL(Alltoallv, Ialltoallv, send, c->send_counts, c->send_displs, type, data, c->counts, c->displs,
				type);
		return CALL(Alltoall, Ialltoall, c->in_place ? MPI_IN_PLACE : send, block, type, data, block, type);
	case RL_SENDRECV: return exchange(x, data, send ? send + at * size_of(x) : NULL, at, reqs);
	default: return MPI_ERR_ARG;
	}
}

// more advances *at to the next chunk, and reports whether there is a next chunk.
static int more(const rl_native *x, int64_t *at) {
	const rl_collective *c = &x->call;
	*at += c->chunk;
	switch (c->kind) {
	case RL_BROADCAST:
	case RL_REDUCE:
	case RL_ALLREDUCE: return *at < c->n;
	case RL_SENDRECV: return *at < c->n || *at < c->sent;
	default: return 0;
	}
}

// place_block copies the block of a reduce-scatter from the scratch memory to the data.
static void place_block(const rl_native *x, char *data) {
	int64_t at, bytes;
	if (x->call.kind != RL_REDUCE_SCATTER) return;
	at = own_block(x, &bytes);
	if (bytes) memcpy(data + at, x->scratch, (size_t)bytes);
}

static int run(rl_native *x, char *data, char *send) {
	int rc;
	int64_t at = 0;
	do rc = step(x, data, send, at, NULL);
	while (rc == MPI_SUCCESS && more(x, &at));
	if (rc == MPI_SUCCESS) place_block(x, data);
	return rc;
}

// after_call wakes the progress thread, since the library may still have to send its copy of a message. If the thread
// is already awake, this costs one load.
static int after_call(rl_native *x, int rc) {
	if (atomic_load(&atomic_load(&x->w->wake)->sleepers)) rl_wake_progress(x->w);
	return rc;
}

// Blocking calls do not count as waiters: the two atomic instructions would take a tenth of a small broadcast's time.
int rl_native_run(rl_native *x, void *data, void *send) { return after_call(x, run(x, data, send)); }

// test tests the requests once, and starts the next step if they are done. It returns 0, RL_PENDING, RL_SHORT_MESSAGE
// or an MPI error code.
static int test(rl_native *x) {
	for (int i = 0; i < 2; i++) {
		if (x->reqs[i] == MPI_REQUEST_NULL) continue;
		int done = 0, got;
		MPI_Status st;
		int rc = MPI_Test(&x->reqs[i], &done, &st);
		if (rc != MPI_SUCCESS) return rc;
		if (!done) return RL_PENDING;
		if (i || x->call.kind != RL_SENDRECV) continue;
		int in = chunk_at(x, x->call.n, x->at);
		if (!in) continue;
		if ((rc = MPI_Get_count(&st, type_of(x), &got)) != MPI_SUCCESS) return rc;
		x->call.got = x->at + got;
		x->short_message = got != in;
	}
	if (x->short_message) return RL_SHORT_MESSAGE;
	if (more(x, &x->at)) {
		int rc = step(x, x->data, x->send, x->at, x->reqs);
		return rc == MPI_SUCCESS ? RL_PENDING : rc;
	}
	place_block(x, x->data);
	return MPI_SUCCESS;
}

int rl_native_start(rl_native *x, void *data, void *send) {
	x->data = data;
	x->send = send;
	x->at = 0;
	x->short_message = 0;
	int rc = step(x, data, send, 0, x->reqs);
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

int rl_native_time(rl_native *x, void *data, void *send, int batch, int samples, double *ns) {
	int rc = MPI_SUCCESS;
	for (int i = 0; i < samples && rc == MPI_SUCCESS; i++) {
		rc = MPI_Barrier(x->comm);
		int64_t start = rl_now();
		for (int j = 0; j < batch && rc == MPI_SUCCESS; j++) rc = run(x, data, send);
		ns[i] = (double)(rl_now() - start);
	}
	return after_call(x, rc);
}

// all_done tests the requests of the started collective, and reports whether all are done.
static int all_done(rl_native *x) {
	int done = 1;
	for (int i = 0; i < 2 && done; i++)
		if (x->reqs[i] != MPI_REQUEST_NULL) MPI_Test(&x->reqs[i], &done, MPI_STATUS_IGNORE);
	return done;
}

int rl_native_close(rl_native *x) {
	for (int64_t start = rl_now(), waited = 0; !all_done(x); rl_pause(x->w, waited = rl_now() - start, NULL))
		if (waited > CLOSE_NS) return RL_PENDING;
	if (x->abandoned) atomic_fetch_sub(&x->w->sends, 1);
	int rc = MPI_Comm_free(&x->comm);
	for (int op = 0; op <= RL_MAX; op++) {
		MPI_Op_free(&x->bf16[op]);
		MPI_Op_free(&x->u8[op]);
	}
	free(x->scratch);
	free(x->call.counts);
	free(x);
	return rc;
}
