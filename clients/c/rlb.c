/* rlb.c implements rlb.h: it speaks RLB1 (docs/bridge.md). Its parts, in order: errors, spaces, greeting, frames,
   memory, solvers with their own loop, served simulators, pipes and sockets. */
#define _POSIX_C_SOURCE 200809L
#include "rlb.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "RLB1 is little endian, and rlb.c writes numbers as they are in memory"
#endif

enum { HELLO = 1, CONFIG, READY, RESET, STEP, RESULT, CLOSE, ERROR, LOG, SAVE, LOAD, RENDER, EXPERT = 14 };
enum { SHARED = 1, AUTORESET = 2, FINAL = 4 };   /* flags of READY, STEP and RESULT */
enum { IGNORE_TERMINATIONS = 1, INTERVENE = 2 }; /* flags of CONFIG */
enum { HEADER = 32, CONFIG_FIXED = 32, BELLS = 128, MAX_PATH = 4096, MAX_ENVS = 1 << 20, MAX_SIDE = 1 << 14 };
#define MAX_LENGTH ((uint64_t)1 << 31)

typedef struct {
	char magic[4];
	uint16_t type, flags;
	uint32_t count, reserved;
	uint64_t seq, length;
} header;

/* The progress of an environment: OVER, NEW, or 1 + the number of steps in its episode, so BEGUN at first. */
enum { OVER = -1, NEW = 0, BEGUN = 1 };

struct rlb {
	rlb_link link;
	rlb_spec spec;
	const rlb_callbacks *cb;             /* NULL: the solver owns its loop */
	int num_obs, num_info;
	uint64_t obs_len[RLB_MAX_OBS];       /* numbers in one environment's observation and action */
	uint64_t action_len;
	uint64_t state_size;                 /* bytes of a saved environment, with its progress; 0: it cannot be saved */
	uint32_t num_envs, child, max_steps, config_flags;
	int closed;                          /* nothing more is received or sent */

	char *in;                            /* received bytes; they begin with the header of the current request */
	size_t room, have;
	uint64_t seq;                        /* seq of the current request */
	int pending, flags;                  /* type of the request, 0 once it is answered; its flags */

	char *out;                           /* a header; without shared memory, followed by the reply block */
	char *map;                           /* shared memory, or NULL */
	uint64_t mapped, request_size, final_at, reply_size;
	char *bells;                         /* after the blocks, or NULL; frames may also come by the stream */
	const char *action;                  /* the request block */
	const uint64_t *seed;
	const uint8_t *mask;
	float *reward, *info;                /* the reply block */
	uint8_t *terminated, *truncated;
	uint8_t *intervened;                 /* with spec.intervene, else NULL */
	char *taken;
	char *obs[RLB_MAX_OBS], *final[RLB_MAX_OBS];

	int32_t *progress;                   /* [num_envs]: OVER, NEW, BEGUN ... */
	char *mine[RLB_MAX_OBS];             /* observations in the program's kind; if served, only those of RLB_F64 */
	char *boxed;                         /* served: actions of a box, in the program's kind */
	uint64_t episode;                    /* solver's loop: the seed of the episode */
};

/* ---- Errors ---- */

static char error_text[512];

const char *rlb_error(void) { return error_text[0] ? error_text : NULL; }

int rlb_fail(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(error_text, sizeof error_text, format, args);
	va_end(args);
	return -1;
}

static int send_frame(rlb *r, char *frame, int type, int flags, uint32_t count, uint64_t length);

/* ---- Spaces ---- */

static int is_box(const rlb_space *s) { return s->kind == RLB_F32 || s->kind == RLB_F64 || s->kind == RLB_U8; }

/* numbers returns how many numbers a value of a space has; 0: none, or more than a frame can carry. */
static uint64_t numbers(const rlb_space *s)
{
	uint64_t n = 1;
	for (int d = 0; d < RLB_MAX_DIMS && s->shape[d] != 0; d++) {
		if (s->shape[d] < 0 || n * (uint64_t)s->shape[d] > MAX_LENGTH)
			return 0;
		n *= (uint64_t)s->shape[d];
	}
	return n;
}

/* wire and native return the size of a number in frames and in the program. */
static size_t wire(const rlb_space *s) { return s->kind == RLB_U8 ? 1 : 4; }
static size_t native(const rlb_space *s) { return s->kind == RLB_F64 ? 8 : wire(s); }

size_t rlb_space_size(const rlb_space *s) { return (size_t)numbers(s) * native(s); }

/* pack copies n numbers from the program's kind to the kind in frames; unpack does the reverse. */
static void pack(const rlb_space *s, void *to, const void *from, uint64_t n)
{
	if (s->kind != RLB_F64)
		memcpy(to, from, n * wire(s));
	else
		for (uint64_t i = 0; i < n; i++)
			((float *)to)[i] = (float)((const double *)from)[i];
}

static void unpack(const rlb_space *s, void *to, const void *from, uint64_t n)
{
	if (s->kind != RLB_F64)
		memcpy(to, from, n * wire(s));
	else
		for (uint64_t i = 0; i < n; i++)
			((double *)to)[i] = ((const float *)from)[i];
}

/* bound returns the bound of number i of a box, or none if there is no bound. */
static double bound(const rlb_space *s, const double *each, double all, uint64_t i, double none)
{
	if (each != NULL)
		return each[i];
	return s->low == 0 && s->high == 0 ? none : all;
}

/* unpack_action does what unpack does for an action, and clips it to its bounds: rounding to float may have moved it
   outside. */
static void unpack_action(const rlb_space *s, void *to, const void *from, uint64_t n)
{
	unpack(s, to, from, n);
	for (uint64_t i = 0; is_box(s) && i < n; i++) {
		double low = bound(s, s->lows, s->low, i, -INFINITY), high = bound(s, s->highs, s->high, i, INFINITY);
		double *x = (double *)to + i;
		float *y = (float *)to + i;
		if (s->kind == RLB_F64)
			*x = *x < low ? low : *x > high ? high : *x;
		else
			*y = *y < (float)low ? (float)low : *y > (float)high ? (float)high : *y;
	}
}

/* check_action reports whether the action of environment e is valid. */
static int check_action(const rlb *r, uint32_t e)
{
	const rlb_space *s = &r->spec.action;
	const float *x = (const float *)r->action + e * r->action_len;
	const int32_t *k = (const int32_t *)r->action + e * r->action_len;
	for (uint64_t i = 0; is_box(s) && i < r->action_len; i++)
		if (!isfinite(x[i]))
			return rlb_fail("action %llu of environment %u is %g: expected a finite number", (unsigned long long)i, e,
				(double)x[i]);
	for (uint64_t i = 0; !is_box(s) && i < r->action_len; i++) {
		int n = s->kind == RLB_DISCRETE ? s->n : s->nvec[i];
		if (k[i] < 0 || k[i] >= n)
			return rlb_fail("action %llu of environment %u is %d: expected 0 to %d", (unsigned long long)i, e,
				(int)k[i], n - 1);
	}
	return 0;
}

/* ---- Greeting ---- */

/* A text is a growing string with room for a header before it. */
typedef struct {
	char *at;
	size_t len, room;
	int failed;
} text;

static void put(text *t, const char *format, ...)
{
	va_list args;
	while (!t->failed) {
		va_start(args, format);
		int n = vsnprintf(t->at + t->len, t->room - t->len, format, args);
		va_end(args);
		if (n >= 0 && (size_t)n < t->room - t->len) {
			t->len += (size_t)n;
			return;
		}
		char *more = n < 0 ? NULL : (char *)realloc(t->at, 2 * t->room + (size_t)n);
		t->failed = more == NULL;
		if (more != NULL) {
			t->at = more;
			t->room = 2 * t->room + (size_t)n;
		}
	}
}

static void put_string(text *t, const char *s)
{
	put(t, "\"");
	for (; s != NULL && *s != '\0'; s++) {
		if (*s == '"' || *s == '\\')
			put(t, "\\%c", *s);
		else if ((unsigned char)*s < 0x20)
			put(t, "\\u%04x", (unsigned)*s);
		else
			put(t, "%c", *s);
	}
	put(t, "\"");
}

/* put_bound writes a number, or null, with a decimal point in any locale. */
static void put_bound(text *t, double x)
{
	size_t from = t->len;
	if (!isfinite(x)) {
		put(t, "null");
		return;
	}
	put(t, "%.17g", x);
	for (; from < t->len; from++)
		if (t->at[from] == ',')
			t->at[from] = '.';
}

static void put_bounds(text *t, const char *key, const rlb_space *s, double all, const double *each)
{
	put(t, ",\"%s\":", key);
	if (each == NULL) {
		put_bound(t, s->low == 0 && s->high == 0 ? INFINITY : all);
		return;
	}
	uint64_t n = numbers(s);
	for (uint64_t i = 0; i < n; i++) {
		put(t, i == 0 ? "[" : ",");
		put_bound(t, each[i]);
	}
	put(t, "]");
}

static void put_space(text *t, const rlb_space *s)
{
	put(t, "{");
	if (s->name != NULL) {
		put(t, "\"name\":");
		put_string(t, s->name);
		put(t, ",");
	}
	if (s->kind == RLB_DISCRETE) {
		put(t, "\"kind\":\"discrete\",\"n\":%d", s->n);
	} else if (s->kind == RLB_MULTI_DISCRETE) {
		put(t, "\"kind\":\"multi_discrete\",\"nvec\":[");
		for (int i = 0; i < s->shape[0]; i++)
			put(t, i == 0 ? "%d" : ",%d", s->nvec[i]);
		put(t, "]");
	} else {
		put(t, "\"kind\":\"box\",\"dtype\":\"%s\",\"shape\":[", s->kind == RLB_U8 ? "u8" : "f32");
		for (int d = 0; d < RLB_MAX_DIMS && s->shape[d] != 0; d++)
			put(t, d == 0 ? "%d" : ",%d", s->shape[d]);
		put(t, "]");
		put_bounds(t, "low", s, s->low, s->lows);
		put_bounds(t, "high", s, s->high, s->highs);
	}
	put(t, "}");
}

/* put_token writes the secret that the parent gave in RLB_TOKEN or in a file. */
static void put_token(text *t)
{
	char line[1024] = "";
	const char *token = getenv("RLB_TOKEN"), *path = getenv("RLB_TOKEN_FILE");
	FILE *f = token == NULL && path != NULL ? fopen(path, "r") : NULL;
	if (f != NULL) {
		if (fgets(line, sizeof line, f) != NULL)
			line[strcspn(line, "\r\n")] = '\0';
		fclose(f);
	}
	put(t, ",\"token\":");
	put_string(t, token != NULL ? token : line);
}

static int check_space(const rlb_space *s)
{
	const char *name = s->name != NULL ? s->name : "action";
	if (s->kind < RLB_F32 || s->kind > RLB_MULTI_DISCRETE)
		return rlb_fail("%s: kind %d: expected RLB_F32 ... RLB_MULTI_DISCRETE", name, s->kind);
	if (numbers(s) == 0)
		return rlb_fail("%s: expected a shape of positive sizes, of at most 2^31 numbers", name);
	if (s->kind == RLB_DISCRETE && (s->n < 1 || s->shape[0] != 0))
		return rlb_fail("%s: discrete of %d: expected n > 0 and no shape", name, s->n);
	if (s->kind == RLB_MULTI_DISCRETE && (s->nvec == NULL || s->shape[0] == 0 || s->shape[1] != 0))
		return rlb_fail("%s: multi-discrete: expected nvec, and as many in shape[0]", name);
	return 0;
}

/* check checks the spec, and counts observations and figures. */
static int check(rlb *r)
{
	const rlb_spec *spec = &r->spec;
	const rlb_callbacks *cb = r->cb;
	if (cb != NULL && (cb->reset == NULL || (cb->step == NULL && cb->step_all == NULL)))
		return rlb_fail("rlb_callbacks: expected reset, and step or step_all");
	if (spec->num_envs < 0 || spec->max_steps < 0 || spec->state_size >= MAX_LENGTH)
		return rlb_fail("rlb_spec: %d environments, %d steps, %llu bytes of state: expected none negative, and less "
			"than 2^31", spec->num_envs, spec->max_steps, (unsigned long long)spec->state_size);
	for (; r->num_obs < RLB_MAX_OBS && spec->obs[r->num_obs].name != NULL; r->num_obs++) {
		if (check_space(&spec->obs[r->num_obs]) != 0)
			return -1;
		r->obs_len[r->num_obs] = numbers(&spec->obs[r->num_obs]);
	}
	if (r->num_obs == 0)
		return rlb_fail("rlb_spec: no observation: expected a name for each");
	if (spec->action.kind == RLB_U8)
		return rlb_fail("action: RLB_U8: expected another kind");
	if (check_space(&spec->action) != 0)
		return -1;
	r->action_len = numbers(&spec->action);
	while (r->num_info < RLB_MAX_INFO && spec->info[r->num_info] != NULL)
		r->num_info++;
	if (cb != NULL && cb->save != NULL && cb->load != NULL && spec->state_size > 0)
		r->state_size = sizeof *r->progress + spec->state_size;
	return 0;
}

static int has_expert(const rlb *r) { return r->cb != NULL ? r->cb->expert != NULL : r->spec.expert != NULL; }

/* greet sends HELLO. */
static int greet(rlb *r)
{
	const rlb_spec *spec = &r->spec;
	text t = {(char *)malloc(4096), HEADER, 4096, 0};
	t.failed = t.at == NULL;
	put(&t, "{\"v\":1,\"lang\":\"C\",\"name\":");
	put_string(&t, spec->name);
	put(&t, ",\"obs\":[");
	for (int i = 0; i < r->num_obs; i++) {
		put(&t, i == 0 ? "" : ",");
		put_space(&t, &spec->obs[i]);
	}
	put(&t, "],\"action\":");
	put_space(&t, &spec->action);
	put(&t, ",\"info\":[");
	for (int i = 0; i < r->num_info; i++) {
		put(&t, i == 0 ? "" : ",");
		put_string(&t, spec->info[i]);
	}
	put(&t, "],\"max_steps\":%d,\"num_envs\":%d", spec->max_steps, r->cb == NULL ? 1 : spec->num_envs);
	put(&t, ",\"state_size\":%llu", (unsigned long long)r->state_size);
	put(&t, ",\"owns_loop\":%s,\"render\":%s", r->cb == NULL ? "true" : "false",
		r->cb != NULL && r->cb->render != NULL ? "true" : "false");
	if (has_expert(r))
		put(&t, ",\"expert\":true");
	if (spec->intervene)
		put(&t, ",\"intervene\":true");
	if (spec->period != 0)
		put(&t, ",\"period\":%.9g", spec->period);
	if (spec->goal_reward != NULL) {
		put(&t, ",\"goal\":{\"threshold\":%.9g,\"terminates\":%s,\"reward\":", spec->goal_threshold,
			spec->goal_terminates ? "true" : "false");
		put_string(&t, spec->goal_reward);
		put(&t, "}");
	}
	put_token(&t);
	put(&t, "}");
	int rc = t.failed ? rlb_fail("no memory for the greeting") : send_frame(r, t.at, HELLO, 0, 0, t.len - HEADER);
	free(t.at);
	return rc;
}

/* ---- Frames ---- */

/* send_frame sends length bytes of payload. frame has room for the header, followed by the payload. */
static int send_frame(rlb *r, char *frame, int type, int flags, uint32_t count, uint64_t length)
{
	header h = {{'R', 'L', 'B', '1'}, (uint16_t)type, (uint16_t)flags, count, 0, r->seq, length};
	memcpy(frame, &h, HEADER);
	return r->link.send(r->link.ctx, frame, HEADER + length);
}

/* fetch waits until n bytes have arrived, and returns 1; 0 if the parent is gone; -1 on failure. */
static int fetch(rlb *r, size_t n)
{
	while (r->have < n) {
		if (r->have == 0 && r->bells != NULL && (r->have = (size_t)r->link.await(r->link.ctx, r->bells, r->in)) != 0)
			continue;
		long got = r->link.recv(r->link.ctx, r->in + r->have, r->room - r->have);
		if (got <= 0)
			return (int)got;
		r->have += (size_t)got;
	}
	return 1;
}

/* wanted returns the length of a request's payload, -1 if type is no request. */
static int64_t wanted(const rlb *r, int type)
{
	switch (type) {
	case RESET:
	case STEP:
		return r->map != NULL ? 0 : (int64_t)r->request_size;
	case CLOSE:
		return 0;
	case SAVE:
		return r->state_size > 0 ? 0 : -1;
	case LOAD:
		return r->state_size > 0 ? (int64_t)(r->num_envs * r->state_size) : -1;
	case EXPERT:
		return has_expert(r) ? 0 : -1;
	case RENDER:
		return r->cb != NULL && r->cb->render != NULL ? 8 + (int64_t)r->num_envs : -1;
	}
	return -1;
}

/* consume removes the answered request from in, and keeps the bytes after it. */
static void consume(rlb *r)
{
	header h;
	memcpy(&h, r->in, HEADER);
	r->have -= HEADER + (size_t)h.length;
	memmove(r->in, r->in + HEADER + h.length, r->have);
	r->pending = 0;
}

/* receive waits for a request and returns its type; 0 if the conversation is over, -1 on failure. */
static int receive(rlb *r)
{
	header h;
	int rc;
	for (;;) {
		if ((rc = fetch(r, HEADER)) <= 0)
			return rc;
		memcpy(&h, r->in, HEADER);
		if (r->bells == NULL || (h.type != RESET && h.type != STEP) || h.seq > r->seq || h.length != 0)
			break;
		consume(r); /* a frame that has already come by the bell */
	}
	int64_t want = wanted(r, h.type);
	uint32_t count = h.type == RESET || h.type == STEP ? r->num_envs : 0;
	if (memcmp(h.magic, "RLB1", 4) != 0)
		return rlb_fail("a frame begins with %02x%02x%02x%02x: expected RLB1", h.magic[0] & 255, h.magic[1] & 255,
			h.magic[2] & 255, h.magic[3] & 255);
	if (want < 0)
		return rlb_fail("a frame of type %d: expected a request that the greeting offers", h.type);
	if (h.length != (uint64_t)want)
		return rlb_fail("a request of type %d with %llu bytes: expected %lld", h.type, (unsigned long long)h.length,
			(long long)want);
	if (h.count != count || h.reserved != 0 || (h.flags & ~(h.type == STEP ? AUTORESET : 0)) != 0)
		return rlb_fail("a request of type %d with count %u, flags %u and reserved %u: expected count %u", h.type,
			h.count, h.flags, h.reserved, count);
	if (h.type == CLOSE)
		return 0;
	if (h.seq != r->seq + 1)
		return rlb_fail("request %llu after %llu", (unsigned long long)h.seq, (unsigned long long)r->seq);
	if ((rc = fetch(r, HEADER + (size_t)h.length)) <= 0)
		return rc;
	for (uint32_t e = 0; e < count; e++)
		if (r->mask[e] > 1)
			return rlb_fail("the mask of environment %u is %u: expected 0 or 1", e, r->mask[e]);
	r->seq = h.seq;
	r->flags = h.flags;
	return r->pending = h.type;
}

/* answer sends RESULT. The reply block has been written before. */
static int answer(rlb *r, int flags)
{
	uint64_t length = r->map != NULL ? 0 : flags & FINAL ? r->reply_size : r->final_at;
	int rc = send_frame(r, r->out, RESULT, flags, r->pending == LOAD ? 0 : r->num_envs, length);
	consume(r);
	return rc;
}

/* ---- Memory ---- */

/* place returns the offset of an array of n bytes, the first multiple of 64 from end on, and moves end past it. */
static uint64_t place(uint64_t *end, uint64_t n)
{
	uint64_t at = (*end + 63) / 64 * 64;
	*end = at + n;
	return at;
}

/* share maps the file of the configuration. If that fails, arrays travel in payloads. */
static void share(rlb *r, const char *path, uint64_t size)
{
	struct stat st;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size >= size) {
		void *p = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		if (p != MAP_FAILED) {
			r->map = (char *)p;
			r->mapped = size;
		}
	}
	close(fd);
}

/* arrange lays out the blocks: in shared memory of that size at path, or after headers. */
static int arrange(rlb *r, const char *path, uint64_t shared)
{
	const rlb_space *obs = r->spec.obs;
	uint64_t n = r->num_envs, info_len = (uint64_t)r->num_info, obs_at[RLB_MAX_OBS], final_at[RLB_MAX_OBS];
	uint64_t taken = r->spec.intervene ? n : 0;
	uint64_t row = r->action_len * 12 + info_len * 4 + r->state_size + 64;
	for (int i = 0; i < r->num_obs; i++)
		row += r->obs_len[i] * (native(&obs[i]) + 2 * wire(&obs[i]));
	if (row > (MAX_LENGTH << 8) / n)
		return rlb_fail("%llu environments of %llu bytes each: expected 2^39 bytes at most", (unsigned long long)n,
			(unsigned long long)row);

	uint64_t end = 0;
	uint64_t action_at = place(&end, n * r->action_len * 4), seed_at = place(&end, n * 8), mask_at = place(&end, n);
	r->request_size = (end + 63) / 64 * 64;
	end = 0;
	uint64_t reward_at = place(&end, n * 4), terminated_at = place(&end, n), truncated_at = place(&end, n),
		info_at = place(&end, n * info_len * 4), intervened_at = place(&end, taken),
		taken_at = place(&end, taken * r->action_len * 4);
	for (int i = 0; i < r->num_obs; i++)
		obs_at[i] = place(&end, n * r->obs_len[i] * wire(&obs[i]));
	for (int i = 0; i < r->num_obs; i++)
		final_at[i] = place(&end, n * r->obs_len[i] * wire(&obs[i]));
	r->final_at = final_at[0];
	r->reply_size = (end + 63) / 64 * 64;

	uint64_t reply_at = (r->request_size + 4095) / 4096 * 4096;
	if (shared != 0 && shared < reply_at + r->reply_size)
		return rlb_fail("%llu bytes of shared memory: expected %llu", (unsigned long long)shared,
			(unsigned long long)(reply_at + r->reply_size));
	if (shared != 0)
		share(r, path, shared);
	if (r->map != NULL && r->link.await != NULL && shared - r->reply_size >= reply_at + BELLS)
		r->bells = r->map + reply_at + r->reply_size;
	uint64_t longest = r->map != NULL ? 0 : r->request_size > r->reply_size ? r->request_size : r->reply_size;
	longest = longest > n * r->state_size ? longest : n * r->state_size;
	if (longest > MAX_LENGTH)
		return rlb_fail("a payload of %llu bytes: expected 2^31 at most", (unsigned long long)longest);

	size_t room = HEADER + (size_t)(longest > 8 + n ? longest : 8 + n);
	r->room = room > r->room ? room : r->room; /* bytes may have arrived already */
	char *in = (char *)realloc(r->in, r->room);
	r->in = in != NULL ? in : r->in;
	r->out = (char *)calloc(1, HEADER + (r->map != NULL ? 0 : r->reply_size));
	r->progress = (int32_t *)calloc(n, sizeof *r->progress);
	int short_of = in == NULL || r->out == NULL || r->progress == NULL;
	for (int i = 0; i < r->num_obs; i++)
		if (r->cb == NULL || obs[i].kind == RLB_F64)
			short_of |= (r->mine[i] = (char *)calloc(n * r->obs_len[i], native(&obs[i]))) == NULL;
	if (r->cb != NULL && is_box(&r->spec.action))
		short_of |= (r->boxed = (char *)calloc(n, rlb_space_size(&r->spec.action))) == NULL;
	if (short_of)
		return rlb_fail("no memory for %llu environments of %llu bytes", (unsigned long long)n,
			(unsigned long long)row);

	const char *request = r->map != NULL ? r->map : r->in + HEADER;
	char *reply = r->map != NULL ? r->map + reply_at : r->out + HEADER;
	r->action = request + action_at;
	r->seed = (const uint64_t *)(request + seed_at);
	r->mask = (const uint8_t *)(request + mask_at);
	r->reward = (float *)(reply + reward_at);
	r->terminated = (uint8_t *)(reply + terminated_at);
	r->truncated = (uint8_t *)(reply + truncated_at);
	r->info = (float *)(reply + info_at);
	if (r->spec.intervene) {
		r->intervened = (uint8_t *)(reply + intervened_at);
		r->taken = reply + taken_at;
	}
	for (int i = 0; i < r->num_obs; i++) {
		r->obs[i] = reply + obs_at[i];
		r->final[i] = reply + final_at[i];
	}
	return 0;
}

/* configure receives CONFIG and arranges memory, and returns 0; -1 on failure; 1 if the parent only asked for the
   greeting. */
static int configure(rlb *r)
{
	header h;
	uint32_t c[6];
	uint64_t shared;
	char path[MAX_PATH + 1] = "";
	int rc, want = r->cb == NULL ? 1 : r->spec.num_envs;
	const uint32_t must = r->spec.intervene ? INTERVENE : 0, may = must | (r->cb == NULL ? 0 : IGNORE_TERMINATIONS);

	r->room = HEADER + CONFIG_FIXED + MAX_PATH;
	if ((r->in = (char *)malloc(r->room)) == NULL)
		return rlb_fail("no memory for a CONFIG");
	if ((rc = fetch(r, HEADER)) <= 0)
		return rc < 0 ? -1 : 1;
	memcpy(&h, r->in, HEADER);
	if (memcmp(h.magic, "RLB1", 4) == 0 && h.type == CLOSE)
		return 1;
	if (memcmp(h.magic, "RLB1", 4) != 0 || h.type != CONFIG || h.flags != 0 || h.count != 0 || h.reserved != 0 ||
		h.seq != 0)
		return rlb_fail("the answer to the greeting is no CONFIG");
	if (h.length < CONFIG_FIXED || h.length > CONFIG_FIXED + MAX_PATH)
		return rlb_fail("a CONFIG of %llu bytes: expected %d to %d", (unsigned long long)h.length, CONFIG_FIXED,
			CONFIG_FIXED + MAX_PATH);
	if ((rc = fetch(r, HEADER + (size_t)h.length)) <= 0)
		return rc < 0 ? -1 : rlb_fail("rlinf hung up within the CONFIG");
	memcpy(c, r->in + HEADER, sizeof c);
	memcpy(&shared, r->in + HEADER + sizeof c, sizeof shared);
	memcpy(path, r->in + HEADER + CONFIG_FIXED, (size_t)h.length - CONFIG_FIXED);
	consume(r);

	if (c[0] != 1)
		return rlb_fail("CONFIG of version %u: expected 1", c[0]);
	if (c[1] < 1 || c[1] > MAX_ENVS || (want != 0 && c[1] != (uint32_t)want))
		return rlb_fail("CONFIG of %u environments: expected %d to %d", c[1], want != 0 ? want : 1,
			want != 0 ? want : MAX_ENVS);
	if ((c[4] & must) != must)
		return rlb_fail("CONFIG with flags %u: expected flag %d, because a person may act (intervene): this rlinf is "
			"too old", c[4], INTERVENE);
	if (c[2] > INT32_MAX || c[3] > INT32_MAX - BEGUN || (c[4] & ~may) != 0 || c[5] != 0)
		return rlb_fail("CONFIG with child %u, max_steps %u, flags %u, reserved %u: expected less, and flags %u%s",
			c[2], c[3], c[4], c[5], must, r->cb == NULL ? ": the solver owns its loop" : ", or 1 more");
	r->num_envs = c[1];
	r->child = c[2];
	r->max_steps = c[3];
	r->config_flags = c[4];
	return arrange(r, path, shared);
}

/* row returns the arrays for the results of environment e. */
static rlb_out row(const rlb *r, uint32_t e)
{
	rlb_out out = {{NULL}, NULL, NULL, NULL, NULL, NULL, NULL};
	for (int i = 0; i < r->num_obs; i++)
		out.obs[i] = (r->mine[i] != NULL ? r->mine[i] : r->obs[i]) + e * r->obs_len[i] * native(&r->spec.obs[i]);
	out.reward = r->reward + e;
	out.terminated = r->terminated + e;
	out.truncated = r->truncated + e;
	out.info = r->info + e * (size_t)r->num_info;
	if (r->intervened != NULL) {
		out.intervened = r->intervened + e;
		out.taken = r->taken + e * r->action_len * wire(&r->spec.action);
	}
	return out;
}

/* advise answers EXPERT. Rows without a running episode are 0. */
static int advise(rlb *r, void *user)
{
	const rlb_space *s = &r->spec.action;
	const size_t size = rlb_space_size(s), length = r->num_envs * (size_t)r->action_len * wire(s);
	char *frame = (char *)calloc(1, HEADER + length), *action = (char *)calloc(1, size);
	if (frame == NULL || action == NULL) {
		free(frame);
		free(action);
		return rlb_fail("no memory for the expert's actions, %llu bytes", (unsigned long long)length);
	}
	for (uint32_t e = 0; e < r->num_envs; e++) {
		if (r->progress[e] < BEGUN)
			continue;
		rlb_out now = row(r, e);
		if (r->cb != NULL)
			r->cb->expert(user, (int)e, &now, action);
		else
			r->spec.expert(r->spec.expert_data, now.obs, action);
		pack(s, frame + HEADER + e * r->action_len * wire(s), action, r->action_len);
	}
	int rc = send_frame(r, frame, RESULT, 0, 0, length);
	free(frame);
	free(action);
	consume(r);
	return rc;
}

/* give_up ends the conversation, and sends the text of rlb_error to the parent. */
static int give_up(rlb *r)
{
	char frame[HEADER + sizeof error_text];
	size_t n = strlen(error_text);
	if (!r->closed) {
		r->closed = 1;
		memcpy(frame + HEADER, error_text, n);
		send_frame(r, frame, ERROR, 0, 0, n);
	}
	return -1;
}

void rlb_close(rlb *r)
{
	if (r == NULL)
		return;
	if (!r->closed) { /* a link without an end of the stream has no other sign for the parent */
		rlb_fail("the program left before the job was over");
		give_up(r);
	}
	if (r->map != NULL)
		munmap(r->map, (size_t)r->mapped);
	for (int i = 0; i < RLB_MAX_OBS; i++)
		free(r->mine[i]);
	free(r->boxed);
	free(r->progress);
	free(r->in);
	free(r->out);
	r->link.close(r->link.ctx);
	free(r);
}

/* start begins a conversation, up to READY. It returns NULL if the conversation failed or ended. */
static rlb *start(const rlb_link *link, const rlb_spec *spec, const rlb_callbacks *cb, void *user)
{
	error_text[0] = '\0';
	rlb *r = (rlb *)calloc(1, sizeof *r);
	if (r == NULL) {
		rlb_fail("no memory");
		link->close(link->ctx);
		return NULL;
	}
	r->link = *link;
	r->spec = *spec;
	r->cb = cb;
	int rc = check(r);
	r->closed = rc != 0; /* the parent does not expect an ERROR before HELLO */
	if (rc == 0)
		rc = greet(r);
	if (rc == 0)
		rc = configure(r);
	if (rc == 0 && cb != NULL && cb->start != NULL && cb->start(user, (int)r->num_envs, (int)r->child) != 0)
		rc = rlb_fail("%s can't start with %u environments", spec->name, r->num_envs);
	if (rc == 0)
		rc = send_frame(r, r->out, READY, r->map != NULL ? SHARED : 0, 0, 0);
	if (rc == 0)
		return r;
	if (rc < 0)
		give_up(r);
	r->closed = 1;
	rlb_close(r);
	return NULL;
}

/* ---- The solver owns its loop ---- */

rlb *rlb_open_on(const rlb_link *link, const rlb_spec *spec) { return start(link, spec, NULL, NULL); }

/* next waits for a request whose mask has the environment, and returns the type of the request; 0 if the conversation
   is over. */
static int next(rlb *r)
{
	while (!r->closed) {
		int type = receive(r);
		if (type == EXPERT) {
			if (advise(r, NULL) != 0)
				give_up(r);
			continue;
		}
		if (type > 0 && r->mask[0])
			return type;
		if (type < 0 || (type > 0 && answer(r, 0) != 0))
			give_up(r);
		r->closed |= type == 0;
	}
	return 0;
}

/* await_episode waits for the request that begins an episode: a RESET, or the unanswered STEP that ended the last
   episode. */
static void await_episode(rlb *r)
{
	if (!r->closed && r->progress[0] < BEGUN && r->pending == 0 && next(r) == STEP) {
		rlb_fail("STEP where no episode goes on");
		give_up(r);
	}
	if (!r->closed && r->progress[0] < BEGUN)
		r->episode = r->seed[0];
}

uint64_t rlb_seed(rlb *r)
{
	await_episode(r);
	return r->episode;
}

/* show writes the observations to the only row of each array. */
static void show(rlb *r, char *const *to, const void *obs)
{
	if (obs != NULL && r->spec.expert != NULL)
		memcpy(r->mine[0], obs, rlb_space_size(&r->spec.obs[0])); /* the expert sees it */
	for (int i = 0; i < r->num_obs; i++)
		pack(&r->spec.obs[i], to[i], i == 0 && obs != NULL ? obs : r->mine[i], r->obs_len[i]);
}

void rlb_send_init(rlb *r, const void *obs)
{
	await_episode(r);
	if (r->closed)
		return;
	if (r->progress[0] >= BEGUN) {
		rlb_fail("rlb_send_init within an episode");
		give_up(r);
		return;
	}
	show(r, r->obs, obs);
	if (r->pending == RESET) {
		r->reward[0] = 0;
		r->terminated[0] = r->truncated[0] = 0;
		memset(r->info, 0, (size_t)r->num_info * sizeof *r->info);
		if (r->intervened != NULL)
			r->intervened[0] = 0;
	}
	r->progress[0] = BEGUN;
	if (answer(r, r->pending == STEP ? FINAL : 0) != 0)
		give_up(r);
}

int rlb_recv_action(rlb *r, void *action)
{
	if (!r->closed && r->pending == STEP && r->progress[0] >= BEGUN) {
		rlb_fail("rlb_recv_action before the last action was answered");
		give_up(r);
	}
	if (r->closed)
		return -1;
	if (r->progress[0] < BEGUN)
		return 0;
	switch (next(r)) {
	case RESET:
		r->progress[0] = OVER;
		return 0;
	case STEP:
		if (check_action(r, 0) != 0)
			return give_up(r);
		if (r->intervened != NULL)
			r->intervened[0] = 0;
		unpack_action(&r->spec.action, action, r->action, r->action_len);
		return 1;
	}
	return -1;
}

void rlb_send_state(rlb *r, const void *obs, double reward) { rlb_send_last(r, obs, reward, 0); }

void rlb_send_last(rlb *r, const void *obs, double reward, int how)
{
	if (r->closed)
		return;
	if (r->pending != STEP || r->progress[0] < BEGUN) {
		rlb_fail("a state is sent where no action was received");
		give_up(r);
		return;
	}
	if (r->max_steps != 0 && (uint32_t)(++r->progress[0] - BEGUN) >= r->max_steps)
		how |= RLB_TRUNCATED;
	r->reward[0] = (float)reward;
	r->terminated[0] = (how & RLB_TERMINATED) != 0;
	r->truncated[0] = (how & RLB_TRUNCATED) != 0;
	if (how != 0)
		r->progress[0] = OVER;
	if (how != 0 && (r->flags & AUTORESET)) {
		show(r, r->final, obs); /* rlb_send_init answers, with the next observation */
		return;
	}
	show(r, r->obs, obs);
	if (answer(r, 0) != 0)
		give_up(r);
}

void rlb_obs(rlb *r, int i, const void *values)
{
	if (i < 0 || i >= r->num_obs) {
		rlb_fail("rlb_obs: observation %d: expected 0 to %d", i, r->num_obs - 1);
		give_up(r);
		return;
	}
	memcpy(r->mine[i], values, rlb_space_size(&r->spec.obs[i]));
}

void rlb_info(rlb *r, int i, double value)
{
	if (i < 0 || i >= r->num_info) {
		rlb_fail("rlb_info: figure %d: expected 0 to %d", i, r->num_info - 1);
		give_up(r);
		return;
	}
	r->info[i] = (float)value;
}

void rlb_intervened(rlb *r, const void *action)
{
	if (r->closed)
		return;
	if (r->intervened == NULL || r->pending != STEP || r->progress[0] < BEGUN) {
		rlb_fail(r->intervened == NULL ? "rlb_intervened: expected a spec with intervene 1"
		                               : "rlb_intervened: there is no action to take the place of");
		give_up(r);
		return;
	}
	r->intervened[0] = 1;
	pack(&r->spec.action, r->taken, action, r->action_len);
}

/* ---- The simulator is served ---- */

/* see copies the program's observations of environment e to the reply block: to obs, or to final. */
static void see(const rlb *r, char *const *to, uint32_t e)
{
	for (int i = 0; i < r->num_obs; i++) {
		const rlb_space *s = &r->spec.obs[i];
		const char *from = r->mine[i] != NULL ? r->mine[i] : r->obs[i];
		if (from != to[i])
			pack(s, to[i] + e * r->obs_len[i] * wire(s), from + e * r->obs_len[i] * native(s), r->obs_len[i]);
	}
}

/* clear sets the rows of environment e to 0, except for observations. */
static void clear(const rlb *r, uint32_t e)
{
	r->reward[e] = 0;
	r->terminated[e] = r->truncated[e] = 0;
	if (r->intervened != NULL)
		r->intervened[e] = 0;
	for (int i = 0; i < r->num_info; i++)
		r->info[e * (size_t)r->num_info + i] = 0;
}

static void begin(rlb *r, void *user, uint32_t e)
{
	rlb_out out = row(r, e);
	r->cb->reset(user, (int)e, r->seed[e], &out);
	r->progress[e] = BEGUN;
	see(r, r->obs, e);
}

static int serve_reset(rlb *r, void *user)
{
	for (uint32_t e = 0; e < r->num_envs; e++) {
		if (r->mask[e]) {
			begin(r, user, e);
			clear(r, e);
		}
	}
	return answer(r, 0);
}

/* step calls the program's step or step_all, with actions in the program's kind. */
static void step(rlb *r, void *user)
{
	const rlb_callbacks *cb = r->cb;
	const char *actions = r->boxed != NULL ? r->boxed : r->action;
	const size_t size = rlb_space_size(&r->spec.action);
	if (r->boxed != NULL)
		for (uint32_t e = 0; e < r->num_envs; e++)
			if (r->mask[e])
				unpack_action(&r->spec.action, r->boxed + e * size, (const float *)r->action + e * r->action_len,
					r->action_len);
	if (cb->step_all != NULL) {
		rlb_out all = row(r, 0);
		cb->step_all(user, r->mask, actions, &all);
		return;
	}
	for (uint32_t e = 0; e < r->num_envs; e++) {
		if (r->mask[e]) {
			rlb_out out = row(r, e);
			cb->step(user, (int)e, actions + e * size, &out);
		}
	}
}

static int serve_step(rlb *r, void *user)
{
	int flags = 0;
	for (uint32_t e = 0; e < r->num_envs; e++) {
		if (!r->mask[e])
			continue;
		if (r->progress[e] < BEGUN)
			return rlb_fail("STEP of environment %u, whose episode is over or was never begun", e);
		if (check_action(r, e) != 0)
			return -1;
		clear(r, e);
	}
	step(r, user);
	for (uint32_t e = 0; e < r->num_envs; e++) {
		if (!r->mask[e])
			continue;
		if (r->config_flags & IGNORE_TERMINATIONS)
			r->terminated[e] = 0;
		if (r->max_steps != 0 && (uint32_t)(++r->progress[e] - BEGUN) >= r->max_steps)
			r->truncated[e] = 1;
		int over = r->terminated[e] || r->truncated[e];
		if (over)
			r->progress[e] = OVER;
		if (over && (r->flags & AUTORESET)) {
			flags = FINAL;
			see(r, r->final, e);
			begin(r, user, e);
		} else {
			see(r, r->obs, e);
		}
	}
	return answer(r, flags);
}

/* serve_payload answers with n bytes, which the function write writes. */
static int serve_payload(rlb *r, void *user, uint64_t n, void (*write)(const rlb *r, void *user, char *to))
{
	char *frame = (char *)calloc(1, HEADER + n);
	if (frame == NULL)
		return rlb_fail("no memory for an answer of %llu bytes", (unsigned long long)n);
	write(r, user, frame + HEADER);
	int rc = send_frame(r, frame, RESULT, 0, 0, n);
	free(frame);
	consume(r);
	return rc;
}

static void write_states(const rlb *r, void *user, char *to)
{
	for (uint32_t e = 0; e < r->num_envs; e++, to += r->state_size) {
		memcpy(to, &r->progress[e], sizeof *r->progress);
		if (r->progress[e] != NEW)
			r->cb->save(user, (int)e, to + sizeof *r->progress);
	}
}

static int serve_load(rlb *r, void *user)
{
	const char *from = r->in + HEADER;
	for (uint32_t e = 0; e < r->num_envs; e++, from += r->state_size) {
		rlb_out out = row(r, e);
		int32_t progress;
		memcpy(&progress, from, sizeof progress);
		if (progress < OVER || progress == INT32_MAX)
			return rlb_fail("LOAD: the progress of environment %u is %ld: expected the state that SAVE gave", e,
				(long)progress);
		r->progress[e] = progress;
		if (progress != NEW) {
			r->cb->load(user, (int)e, from + sizeof progress, &out);
			see(r, r->obs, e);
		}
		clear(r, e);
	}
	return answer(r, 0);
}

static void write_pictures(const rlb *r, void *user, char *to)
{
	uint32_t size[2];
	memcpy(size, r->in + HEADER, sizeof size);
	for (uint32_t e = 0; e < r->num_envs; e++) {
		if (r->in[HEADER + 8 + e] == 1) {
			r->cb->render(user, (int)e, (int)size[0], (int)size[1], (uint8_t *)to);
			to += (size_t)size[0] * size[1] * 3;
		}
	}
}

static int serve_render(rlb *r, void *user)
{
	uint32_t size[2];
	uint64_t pictures = 0;
	memcpy(size, r->in + HEADER, sizeof size);
	for (uint32_t e = 0; e < r->num_envs; e++)
		pictures += r->in[HEADER + 8 + e] == 1;
	if (size[0] < 1 || size[0] > MAX_SIDE || size[1] < 1 || size[1] > MAX_SIDE ||
		pictures * size[0] * size[1] * 3 > MAX_LENGTH)
		return rlb_fail("RENDER of %llu pictures, %u by %u: expected 1 to %d, and 2^31 bytes in all",
			(unsigned long long)pictures, size[0], size[1],
		           MAX_SIDE);
	return serve_payload(r, user, pictures * size[0] * size[1] * 3, write_pictures);
}

int rlb_serve_on(const rlb_link *link, const rlb_spec *spec, const rlb_callbacks *callbacks, void *user)
{
	rlb *r = start(link, spec, callbacks, user);
	int type = 0, rc = 0;
	if (r == NULL)
		return rlb_error() != NULL ? -1 : 0;
	while (rc == 0 && (type = receive(r)) > 0) {
		switch (type) {
		case RESET: rc = serve_reset(r, user); break;
		case STEP: rc = serve_step(r, user); break;
		case SAVE: rc = serve_payload(r, user, r->num_envs * r->state_size, write_states); break;
		case LOAD: rc = serve_load(r, user); break;
		case RENDER: rc = serve_render(r, user); break;
		case EXPERT: rc = advise(r, user); break;
		}
	}
	if (rc < 0 || type < 0)
		rc = give_up(r);
	r->closed = 1;
	rlb_close(r);
	return rc;
}

/* ---- Pipes and sockets ---- */

typedef struct {
	int in, out, is_socket;
	uint64_t *bells;                     /* carry frames without payload, or NULL */
	uint64_t heard;                      /* seq of the last frame from the bells */
	int64_t until;                       /* when the current polling ends, or 0 */
	int vain, sleeps;                    /* requests to block for after the last failed polling, and those left */
	int beside;                          /* the parent runs on another core: a frame came between two polls, and every
	                                        later frame came before this side yielded */
} pair;

/* is_gone reports whether err means that the parent is gone. That is no failure: it ends the conversation. */
static int is_gone(int err) { return err == EPIPE || err == ECONNRESET; }

enum { LOOK_FOR = 50000 /* ns */, MAX_SLEEPS = 63 };

/* again returns 1 to poll for input again, 0 to block until input is there. Waking up takes longer than a fast parent's
   next request, so the caller first polls for LOOK_FOR, and yields the core between polls. If polling fails, because
   the parent is slow or the cores are busy, the caller blocks at once for the next 1, 3, 7 ... MAX_SLEEPS requests. */
static int again(pair *p)
{
	struct timespec t;
	if (p->sleeps > 0) {
		p->sleeps--;
		return 0;
	}
	clock_gettime(CLOCK_MONOTONIC, &t);
	int64_t now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
	if (p->until == 0)
		p->until = now + LOOK_FOR;
	if (now < p->until) {
		sched_yield();
		return 1;
	}
	p->until = 0;
	p->vain = p->vain < MAX_SLEEPS ? 2 * p->vain + 1 : MAX_SLEEPS;
	p->sleeps = p->vain;
	return 0;
}

/* Words of the bells. Each bell has the words of a header, of which seq is written last, and a word that is 1 while the
   receiver polls. The bell of requests comes first, then the bell of results. */
enum { IN_SEQ = 2, IN_LOOKING = 4, OUT = 8, OUT_SEQ = OUT + 2, OUT_LOOKING = OUT + 4 };

/* Numbers of polls of the bell before the stream is polled by a system call. The first number is 1, because the parent
   may need this core. Then come FEW_LOOKS, and twice as many each time, up to MANY_LOOKS. If the parent runs on another
   core, the first number is BESIDE_LOOKS, because a frame that arrives during a system call is noticed later. Virtual
   machines lose their core for a while after some 3000 polls in a row. */
enum { FEW_LOOKS = 50, MANY_LOOKS = 400, BESIDE_LOOKS = 2000 };

#if defined(__GCC_ATOMIC_LLONG_LOCK_FREE) && __GCC_ATOMIC_LLONG_LOCK_FREE == 2
enum { HAS_BELLS = 1 };
static uint64_t load(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_SEQ_CST); }
static void store(uint64_t *word, uint64_t x) { __atomic_store_n(word, x, __ATOMIC_SEQ_CST); }
#else
enum { HAS_BELLS = 0 };
static uint64_t load(const uint64_t *word) { return *word; }
static void store(uint64_t *word, uint64_t x) { *word = x; }
#endif

/* rest leaves the core to its other hardware thread for a moment. */
static void rest(void)
{
#if defined(__GNUC__) && (defined(__x86_64__) || defined(__i386__))
	__builtin_ia32_pause();
#endif
}

/* rung polls the bell, takes a new header from it, and returns the number of the poll that found it; 0: no header. */
static int rung(pair *p, int looks, void *buf)
{
	uint64_t seq, head[HEADER / 8];
	for (int look = 1; look <= looks; look++) {
		if ((seq = load(&p->bells[IN_SEQ])) == p->heard) {
			rest();
			continue;
		}
		memcpy(head, p->bells, HEADER);
		head[IN_SEQ] = p->heard = seq;
		memcpy(buf, head, HEADER);
		return look;
	}
	return 0;
}

/* leave tells the parent that this side stops polling the bell. It then polls once more, because a frame may have come
   before the parent noticed. */
static long leave(pair *p, void *buf)
{
	if (load(&p->bells[IN_LOOKING]) == 0)
		return 0;
	store(&p->bells[IN_LOOKING], 0);
	return rung(p, 1, buf) ? HEADER : 0;
}

/* ring writes a RESULT to the bell, and returns 1 if the parent polls the bell. */
static int ring(const pair *p, const void *frame)
{
	uint64_t head[HEADER / 8];
	memcpy(head, frame, HEADER);
	memcpy(p->bells + OUT, head, IN_SEQ * sizeof *head);
	p->bells[OUT + 3] = head[3];
	store(&p->bells[OUT_SEQ], head[IN_SEQ]);
	return load(&p->bells[OUT_LOOKING]) != 0;
}

/* found ends polling: input is there. */
static void found(pair *p)
{
	if (p->until != 0)
		p->until = p->vain = 0;
}

static long pair_await(void *ctx, void *bells, void *header)
{
	pair *p = (pair *)ctx;
	struct pollfd in = {p->in, POLLIN, 0};
	p->bells = (uint64_t *)bells;
	if (p->sleeps > 0) {
		p->beside = 0;
		return leave(p, header);
	}
	if (load(&p->bells[IN_LOOKING]) == 0)
		store(&p->bells[IN_LOOKING], 1);
	int looks = p->beside ? BESIDE_LOOKS : 1;
	for (int yielded = 0;; yielded = 1) {
		int look = rung(p, looks, header);
		if (look > 0) {
			p->beside = look > 1 || (p->beside && !yielded);
			found(p);
			return HEADER;
		}
		if (looks > 1 && poll(&in, 1, 0) > 0)
			return 0;
		if (!again(p)) {
			long n = leave(p, header);
			if (n == 0)
				poll(&in, 1, -1);
			return n;
		}
		looks = looks == 1 ? FEW_LOOKS : 2 * looks < MANY_LOOKS ? 2 * looks : MANY_LOOKS;
	}
}

static long pair_recv(void *ctx, void *buf, size_t room)
{
	pair *p = (pair *)ctx;
	struct pollfd in = {p->in, POLLIN, 0};
	for (;;) {
		ssize_t n = p->is_socket ? recv(p->in, buf, room, MSG_DONTWAIT) : read(p->in, buf, room);
		if (n >= 0) {
			found(p);
			return (long)n;
		}
		if (is_gone(errno))
			return 0;
		if (errno == EAGAIN && !again(p))
			poll(&in, 1, -1);
		else if (errno != EAGAIN && errno != EINTR)
			return rlb_fail("read from rlinf: %s", strerror(errno));
	}
}

static int pair_send(void *ctx, const void *frame, size_t n)
{
	const pair *p = (const pair *)ctx;
	if (p->bells != NULL && n == HEADER && ((const header *)frame)->type == RESULT && ring(p, frame))
		return 0;
	for (size_t sent = 0; sent < n;) {
		const char *from = (const char *)frame + sent;
		ssize_t k = p->is_socket ? send(p->out, from, n - sent, MSG_NOSIGNAL) : write(p->out, from, n - sent);
		if (k < 0 && is_gone(errno))
			return 0;
		if (k < 0 && errno != EINTR)
			return rlb_fail("write to rlinf: %s", strerror(errno));
		sent += k < 0 ? 0 : (size_t)k;
	}
	return 0;
}

static void pair_close(void *ctx)
{
	pair *p = (pair *)ctx;
	close(p->in);
	if (p->out != p->in)
		close(p->out);
	free(p);
}

static int connect_unix(const char *path)
{
	struct sockaddr_un a;
	memset(&a, 0, sizeof a);
	a.sun_family = AF_UNIX;
	if (strlen(path) >= sizeof a.sun_path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(a.sun_path, path, strlen(path));
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
		int err = errno;
		close(fd);
		errno = err;
		return -1;
	}
	return fd;
}

/* connect_tcp takes host:port, where the host may be [an IPv6 address]. */
static int connect_tcp(const char *where)
{
	char host[256] = "";
	const char *colon = strrchr(where, ':');
	size_t n = colon != NULL ? (size_t)(colon - where) : 0;
	if (n > 1 && where[0] == '[' && where[n - 1] == ']') {
		where++;
		n -= 2;
	}
	if (colon == NULL || n >= sizeof host) {
		errno = EINVAL;
		return -1;
	}
	memcpy(host, where, n);
	struct addrinfo hints, *found = NULL;
	memset(&hints, 0, sizeof hints);
	hints.ai_socktype = SOCK_STREAM;
	if (getaddrinfo(host, colon + 1, &hints, &found) != 0) {
		errno = EHOSTUNREACH;
		return -1;
	}
	int fd = -1, one = 1, err = EHOSTUNREACH;
	for (struct addrinfo *a = found; a != NULL && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
		if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
			err = errno;
			close(fd);
			fd = -1;
		}
	}
	freeaddrinfo(found);
	if (fd >= 0)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	errno = err;
	return fd;
}

/* find connects to RLB_ADDR. It retries for a while, because rlinf may not listen yet. */
static int find(rlb_link *link)
{
	const char *addr = getenv("RLB_ADDR");
	pair p = {-1, -1, 1, NULL, 0, 0, 0, 0, 0};
	error_text[0] = '\0';
	if (addr == NULL)
		return rlb_fail("RLB_ADDR is not set: expected this program started by rlinf, or the address at which it "
			"listens");
	if (sscanf(addr, "fd:%d,%d", &p.in, &p.out) == 2) {
		p.is_socket = 0;
		if (fcntl(p.in, F_SETFD, FD_CLOEXEC) != 0 || fcntl(p.out, F_SETFD, FD_CLOEXEC) != 0 ||
			fcntl(p.in, F_SETFL, O_NONBLOCK) != 0)
			return rlb_fail("RLB_ADDR %s: %s", addr, strerror(errno));
	} else if (strncmp(addr, "unix:", 5) == 0 || strncmp(addr, "tcp:", 4) == 0) {
		const struct timespec pause = {0, 100000000};
		for (int tries = 0; p.in < 0; tries++) {
			p.in = addr[0] == 'u' ? connect_unix(addr + 5) : connect_tcp(addr + 4);
			if (p.in < 0 && (tries == 100 || (errno != ECONNREFUSED && errno != ENOENT)))
				return rlb_fail("RLB_ADDR %s: %s", addr, strerror(errno));
			if (p.in < 0)
				nanosleep(&pause, NULL);
		}
		p.out = p.in;
		fcntl(p.in, F_SETFD, FD_CLOEXEC);
	} else {
		return rlb_fail("RLB_ADDR %s: expected fd:IN,OUT, unix:PATH or tcp:HOST:PORT; mpi is for rlb_mpi_open", addr);
	}
	struct sigaction sa;
	if (sigaction(SIGPIPE, NULL, &sa) == 0 && sa.sa_handler == SIG_DFL)
		signal(SIGPIPE, SIG_IGN);
	link->recv = pair_recv;
	link->send = pair_send;
	link->close = pair_close;
	link->await = HAS_BELLS ? pair_await : NULL;
	if ((link->ctx = malloc(sizeof p)) == NULL)
		return rlb_fail("no memory");
	memcpy(link->ctx, &p, sizeof p);
	return 0;
}

rlb *rlb_open(const rlb_spec *spec)
{
	rlb_link link;
	return find(&link) == 0 ? rlb_open_on(&link, spec) : NULL;
}

int rlb_serve(const rlb_spec *spec, const rlb_callbacks *callbacks, void *user)
{
	rlb_link link;
	return find(&link) == 0 ? rlb_serve_on(&link, spec, callbacks, user) : -1;
}
