//go:build mpi

// The library's own collectives. What is called is the same for the blocking form and the other; the difference is where CALL leads.

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
	char *scratch; // for what MPI cannot do in place; it grows
	int64_t room;
	// What rl_native_start has started.
	MPI_Request reqs[2];
	char *data, *send;
	int64_t at;    // elements done
	int cut_short; // the message was shorter than its place
	int abandoned;
};

// What was given up may be about to end: the last messages of the others are here, and it takes the library a few calls to move them. So long the wait for it is
// at most; who closes a communicator that others never joined waits in vain.
enum { CLOSE_NS = 1000 * 1000 * 1000 };

// Operations of our own, for two types. bfloat16 is the upper half of a float32: MPI knows no such type, so that it travels as a 16-bit integer; we compute in
// float32 and round to nearest, ties to even, as tensor.ToBF16 does. For unsigned bytes the libraries differ: the sum of Open MPI stops at 255 where the machine
// has AVX (open-mpi/ompi#8045), and the minimum and maximum of MPICH 4.0.2 take 255 for -1.

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
	return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? upper : rounded); // a NaN of these operations has its mark in the upper half
}

// -O2 of older compilers leaves these loops scalar. Twins for AVX2, chosen when the program starts, make bfloat16 three times as fast; no bit differs.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define VECTORISED __attribute__((optimize("O3"), target_clones("avx2", "default")))
#elif defined(__GNUC__) && !defined(__clang__)
#define VECTORISED __attribute__((optimize("O3")))
#else
#define VECTORISED
#endif

// OP is an operation on elements of a type: a from one member, b from the other.
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

int rl_native_open(rl_world *w, const int *ranks, int n, int tag, const char *name, rl_native **out, rl_collective **call, rl_fault *fault) {
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
	static const MPI_Op standard[] = {[RL_SUM] = MPI_SUM, [RL_PROD] = MPI_PROD, [RL_MIN] = MPI_MIN, [RL_MAX] = MPI_MAX};
	switch (x->call.dtype) {
	case RL_BF16: return x->bf16[x->call.op];
	case RL_U8: return x->u8[x->call.op];
	default: return standard[x->call.op];
	}
}

// piece is how much of n elements the call that starts at `at` takes.
static int piece(const rl_native *x, int64_t n, int64_t at) {
	int64_t rest = n - at;
	return (int)(rest < 0 ? 0 : rest < x->call.chunk ? rest : x->call.chunk);
}

// exchange is SENDRECV. Each side has as many messages as its length needs, one at least; who has none left exchanges with nobody.
static int exchange(rl_native *x, char *data, char *send, int64_t at, MPI_Request *reqs) {
	const rl_collective *c = &x->call;
	MPI_Datatype type = type_of(x);
	int out = piece(x, c->sent, at), in = piece(x, c->n, at);
	int to = out || !at ? c->to : MPI_PROC_NULL, from = in || !at ? c->from : MPI_PROC_NULL;
	if (!reqs) {
		MPI_Status st;
		int rc = MPI_Sendrecv(send, out, type, to, 0, data, in, type, from, 0, x->comm, &st), got = in;
		if (rc == MPI_SUCCESS && in) rc = MPI_Get_count(&st, type, &got);
		x->call.got = at + got;
		return rc == MPI_SUCCESS && got != in ? RL_SHORT : rc;
	}
	int rc = MPI_Irecv(data, in, type, from, 0, x->comm, &reqs[0]);
	return rc != MPI_SUCCESS ? rc : MPI_Isend(send, out, type, to, 0, x->comm, &reqs[1]);
}

static char *scratch_for(rl_native *x, int64_t bytes) {
	if (bytes < x->room) return x->scratch;
	free(x->scratch);
	x->room = bytes + 1; // never 0
	if (!(x->scratch = malloc((size_t)x->room))) x->room = 0;
	return x->scratch;
}

// MPICH crashes on an MPI_Reduce in place whose root is not member 0, before 4.3 at the latest (pmodels/mpich#6540, #6893). MPI_Ireduce is sound.
#if defined(MPICH_NUMVERSION) && MPICH_NUMVERSION < 40300000
enum { ROOT_IN_PLACE = 0 };
#else
enum { ROOT_IN_PLACE = 1 };
#endif

// lead_reduce is the root's blocking MPI_Reduce.
static int lead_reduce(rl_native *x, char *data, int n, MPI_Datatype type, MPI_Op op) {
	int root = x->call.root;
	if (ROOT_IN_PLACE || root == 0) return MPI_Reduce(MPI_IN_PLACE, data, n, type, op, root, x->comm);
	int64_t bytes = n * size_of(x);
	if (!scratch_for(x, bytes)) return MPI_ERR_NO_MEM;
	memcpy(x->scratch, data, (size_t)bytes);
	return MPI_Reduce(x->scratch, data, n, type, op, root, x->comm);
}

// CALL is MPI_Xyz(…, comm), or MPI_Ixyz(…, comm, reqs) where there are requests to fill in.
#define CALL(Xyz, ixyz, ...) (reqs ? MPI_##ixyz(__VA_ARGS__, x->comm, reqs) : MPI_##Xyz(__VA_ARGS__, x->comm))

// own_block says where this member's block of a reduce-scatter is, and how long it is, in bytes.
static int64_t own_block(const rl_native *x, int64_t *bytes) {
	const rl_collective *c = &x->call;
	*bytes = (c->uneven ? c->counts[x->rank] : c->block) * size_of(x);
	return (c->uneven ? c->displs[x->rank] : x->rank * c->block) * size_of(x);
}

// reduce_scatter leaves the block in the scratch. MPI's in place would leave it at the start of the data, from where it had to be moved as well, and that of
// MPICH 4.0.2 fails where the block overlaps the start.
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

// step does what is next of a collective: the elements from `at` on of one that can be cut, else all.
static int step(rl_native *x, char *base, char *send, int64_t at, MPI_Request *reqs) {
	const rl_collective *c = &x->call;
	MPI_Datatype type = type_of(x);
	void *own;
	char *data = base ? base + at * size_of(x) : NULL;
	int n = piece(x, c->n, at), block = (int)c->block, leads = c->root == x->rank;
	switch (c->kind) {
	case RL_BARRIER: return reqs ? MPI_Ibarrier(x->comm, reqs) : MPI_Barrier(x->comm);
	case RL_BROADCAST: return CALL(Bcast, Ibcast, data, n, type, c->root);
	case RL_REDUCE:
		if (leads && !reqs) return lead_reduce(x, data, n, type, op_of(x));
		if (leads) return MPI_Ireduce(MPI_IN_PLACE, data, n, type, op_of(x), c->root, x->comm, reqs);
		return CALL(Reduce, Ireduce, data, NULL, n, type, op_of(x), c->root);
	case RL_ALLREDUCE: return CALL(Allreduce, Iallreduce, MPI_IN_PLACE, data, n, type, op_of(x));
	case RL_REDUCE_SCATTER: return reduce_scatter(x, data, reqs);
	case RL_ALLGATHER:
		if (c->uneven) return CALL(Allgatherv, Iallgatherv, MPI_IN_PLACE, 0, type, data, c->counts, c->displs, type);
		return CALL(Allgather, Iallgather, MPI_IN_PLACE, 0, type, data, block, type);
	case RL_GATHER: // MPI reads what is for the root there alone
		own = leads ? MPI_IN_PLACE : data;
		if (c->uneven) return CALL(Gatherv, Igatherv, own, (int)c->n, type, data, c->counts, c->displs, type, c->root);
		return CALL(Gather, Igather, own, block, type, data, block, type, c->root);
	case RL_SCATTER:
		own = leads ? MPI_IN_PLACE : data;
		if (c->uneven) return CALL(Scatterv, Iscatterv, data, c->counts, c->displs, type, own, (int)c->n, type, c->root);
		return CALL(Scatter, Iscatter, data, block, type, own, block, type, c->root);
	case RL_ALLTOALL:
		if (c->uneven) return CALL(Alltoallv, Ialltoallv, send, c->send_counts, c->send_displs, type, data, c->counts, c->displs, type);
		return CALL(Alltoall, Ialltoall, c->in_place ? MPI_IN_PLACE : send, block, type, data, block, type);
	case RL_SENDRECV: return exchange(x, data, send ? send + at * size_of(x) : NULL, at, reqs);
	default: return MPI_ERR_ARG;
	}
}

// more reports whether something is left to do after the step at `at`, and moves on to it.
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

// settle puts the result where it belongs, if it is not there.
static void settle(const rl_native *x, char *data) {
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
	if (rc == MPI_SUCCESS) settle(x, data);
	return rc;
}

// after wakes the progress thread after a call: the library may hold a copy that has not left. While the thread is awake, this is one load.
static int after(rl_native *x, int rc) {
	if (atomic_load(&atomic_load(&x->w->door)->asleep)) rl_kick(x->w);
	return rc;
}

// The blocking calls are not counted among the waiters: two locked instructions are a tenth of a small broadcast.
int rl_native_run(rl_native *x, void *data, void *send) { return after(x, run(x, data, send)); }

// look tests once, and starts the step that follows: 0, RL_PENDING, RL_SHORT or an MPI error code.
static int look(rl_native *x) {
	for (int i = 0; i < 2; i++) {
		if (x->reqs[i] == MPI_REQUEST_NULL) continue;
		int over = 0, got;
		MPI_Status st;
		int rc = MPI_Test(&x->reqs[i], &over, &st);
		if (rc != MPI_SUCCESS) return rc;
		if (!over) return RL_PENDING;
		if (i || x->call.kind != RL_SENDRECV) continue;
		int in = piece(x, x->call.n, x->at);
		if (!in) continue;
		if ((rc = MPI_Get_count(&st, type_of(x), &got)) != MPI_SUCCESS) return rc;
		x->call.got = x->at + got;
		x->cut_short = got != in;
	}
	if (x->cut_short) return RL_SHORT;
	if (more(x, &x->at)) {
		int rc = step(x, x->data, x->send, x->at, x->reqs);
		return rc == MPI_SUCCESS ? RL_PENDING : rc;
	}
	settle(x, x->data);
	return MPI_SUCCESS;
}

int rl_native_start(rl_native *x, void *data, void *send) {
	x->data = data;
	x->send = send;
	x->at = 0;
	x->cut_short = 0;
	int rc = step(x, data, send, 0, x->reqs);
	return rc == MPI_SUCCESS ? rl_native_wait(x, 0) : rc;
}

int rl_native_wait(rl_native *x, int slices) {
	int r = look(x);
	if (r != RL_PENDING) return after(x, r);
	int64_t before = (int64_t)slices * RL_SLICE_NS, start = rl_now(), waited = before;
	atomic_fetch_add(&x->w->waiters, 1);
	for (int round = 1; r == RL_PENDING && waited < before + RL_SLICE_NS; round++) {
		int paused = rl_pause(x->w, waited, NULL);
		r = look(x);
		if (paused || round % 8 == 0) waited = before + rl_now() - start;
	}
	atomic_fetch_sub(&x->w->waiters, 1);
	return after(x, r);
}

void rl_native_abandon(rl_native *x) {
	x->abandoned = 1;
	atomic_fetch_add(&x->w->sends, 1);
	rl_kick(x->w);
}

int rl_native_time(rl_native *x, void *data, void *send, int batch, int samples, double *ns) {
	int rc = MPI_SUCCESS;
	for (int i = 0; i < samples && rc == MPI_SUCCESS; i++) {
		rc = MPI_Barrier(x->comm);
		int64_t start = rl_now();
		for (int j = 0; j < batch && rc == MPI_SUCCESS; j++) rc = run(x, data, send);
		ns[i] = (double)(rl_now() - start);
	}
	return after(x, rc);
}

// over tests what was started.
static int over(rl_native *x) {
	int done = 1;
	for (int i = 0; i < 2 && done; i++)
		if (x->reqs[i] != MPI_REQUEST_NULL) MPI_Test(&x->reqs[i], &done, MPI_STATUS_IGNORE);
	return done;
}

int rl_native_close(rl_native *x) {
	for (int64_t start = rl_now(), waited = 0; !over(x); rl_pause(x->w, waited = rl_now() - start, NULL))
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
