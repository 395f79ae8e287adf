/* fuzz plays conversations with the C client that have a fault somewhere, for the number of seconds in its argument. It
 * is built with sanitisers, which end it at an invalid access of the client. It prints the number of conversations, the
 * number that the client ended with an error, and the number of answered requests. */
#define _GNU_SOURCE
#include "../c/rlb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { HEADER = 32, ROOM = 1 << 16, OBS = 5, PIXELS = 12, STATE = 16, REQUEST = 64 + 64 + 64 };

/* A parent is a prepared sequence of frames. */
typedef struct {
	uint64_t random;
	char *shared, path[32]; /* ROOM bytes of shared memory, and their path */
	int shares;             /* this conversation uses the shared memory */
	char script[ROOM];
	size_t len, said;
	unsigned long answers, errors;
} parent;

static uint64_t draw(parent *p, uint64_t n)
{
	p->random ^= p->random << 13;
	p->random ^= p->random >> 7;
	p->random ^= p->random << 17;
	return p->random % n;
}

static void put(parent *p, const void *bytes, size_t n)
{
	if (p->len + n <= ROOM) {
		memcpy(p->script + p->len, bytes, n);
		p->len += n;
	}
}

static void put_frame(parent *p, uint16_t type, uint16_t flags, uint32_t count, uint64_t seq, const void *payload,
	uint64_t n)
{
	char h[HEADER] = "RLB1";
	memcpy(h + 4, &type, 2);
	memcpy(h + 6, &flags, 2);
	memcpy(h + 8, &count, 4);
	memcpy(h + 16, &seq, 8);
	memcpy(h + 24, &n, 8);
	put(p, h, HEADER);
	put(p, payload, (size_t)n);
}

/* write_request writes the actions and the mask of n environments. */
static void write_request(parent *p, char *block, uint32_t n, int all)
{
	for (uint32_t i = 0; i < 2 * n; i++) {
		float x = (float)draw(p, 200) / 100 - 1;
		memcpy(block + 4 * i, &x, 4);
	}
	for (uint32_t e = 0; e < n; e++)
		block[128 + e] = all || draw(p, 4) != 0;
}

/* write_script writes a conversation with n environments of two float actions each, in payloads or in shared memory,
 * and spoils some bytes. */
static void write_script(parent *p, int owns_loop)
{
	static char block[ROOM];
	static const uint16_t types[] = {4, 5, 5, 5, 5, 5, 10, 11, 12, 7};
	uint32_t n = owns_loop ? 1 : 1 + (uint32_t)draw(p, 5), config[8] = {1, n, 0, (uint32_t)draw(p, 4), 0, 0, 0, 0};
	p->len = p->said = 0;
	p->shares = (int)draw(p, 2);
	config[6] = p->shares ? ROOM : 0;
	memcpy(block, config, sizeof config);
	strcpy(block + sizeof config, p->path);
	put_frame(p, 2, 0, 0, 0, block, sizeof config + (p->shares ? strlen(p->path) : 0));
	for (uint64_t seq = 1, last = 1 + draw(p, 12); seq <= last; seq++) {
		uint16_t type = seq == 1 ? 4 : types[draw(p, owns_loop ? 6 : 10)];
		uint32_t size[2] = {1 + (uint32_t)draw(p, 9), 1 + (uint32_t)draw(p, 9)};
		uint64_t length = 0;
		memset(block, 0, sizeof block);
		if (type == 4 || type == 5) {
			length = p->shares ? 0 : REQUEST;
			write_request(p, block, n, type == 4);
		} else if (type == 11) {
			length = n * (STATE + 4);
			for (uint32_t e = 0; e < n; e++)
				block[e * (STATE + 4)] = (char)draw(p, 3);
		} else if (type == 12) {
			length = 8 + n;
			memcpy(block, size, sizeof size);
			for (uint32_t e = 0; e < n; e++)
				block[8 + e] = (char)draw(p, 2);
		}
		put_frame(p, type, type == 5 && draw(p, 3) != 0 ? 2 : 0, type == 4 || type == 5 ? n : 0, seq, block, length);
	}
	for (uint64_t spoilt = draw(p, 4); spoilt > 0; spoilt--)
		p->script[draw(p, p->len)] = (char)draw(p, 256);
	if (draw(p, 4) == 0)
		p->len = draw(p, p->len);
}

static long say(void *ctx, void *buf, size_t room)
{
	parent *p = (parent *)ctx;
	size_t n = 1 + draw(p, room < 600 ? room : 600);
	n = n < p->len - p->said ? n : p->len - p->said;
	memcpy(buf, p->script + p->said, n);
	p->said += n;
	return (long)n;
}

/* ring sends the next frame by the bell, or sends nothing. Before, it changes the shared memory. */
static long ring(void *ctx, void *bells, void *header)
{
	parent *p = (parent *)ctx;
	write_request(p, p->shared, 1 + (uint32_t)draw(p, 5), draw(p, 2) == 0);
	p->shared[draw(p, REQUEST)] = (char)draw(p, 256);
	p->shared[draw(p, ROOM)] = (char)draw(p, 256);
	memset(bells, (int)draw(p, 256), 128);
	if (draw(p, 2) == 0 || p->len - p->said < HEADER)
		return 0;
	memcpy(header, p->script + p->said, HEADER);
	p->said += HEADER;
	return HEADER;
}

static int hear(void *ctx, const void *frame, size_t n)
{
	parent *p = (parent *)ctx;
	const unsigned char *f = (const unsigned char *)frame;
	unsigned sum = 0;
	for (size_t i = 0; i < n; i++)
		sum += f[i];
	p->answers += f[4] == 6 && sum > 0;
	p->errors += f[4] == 8;
	return 0;
}

static void hang_up(void *ctx) { (void)ctx; }

/* The simulator reads all of its input, and writes all of its output. */
static void write_all(const rlb_out *out, double x)
{
	for (int i = 0; i < OBS; i++)
		((double *)out->obs[0])[i] = x;
	memset(out->obs[1], (int)x & 255, PIXELS);
	*out->reward = (float)x;
	out->info[0] = out->info[1] = 1;
}

static void reset(void *user, int env, uint64_t seed, const rlb_out *out)
{
	(void)user;
	write_all(out, (double)(seed % 256) + env);
}

static void step(void *user, int env, const void *action, const rlb_out *out)
{
	const float *a = (const float *)action;
	(void)user;
	write_all(out, a[0] + a[1] + env);
	*out->terminated = a[0] > 0.8F;
}

static void save(void *user, int env, void *state)
{
	(void)user;
	memset(state, env, STATE);
}

static void load(void *user, int env, const void *state, const rlb_out *out)
{
	(void)user;
	write_all(out, ((const char *)state)[STATE - 1] + env);
}

static void render(void *user, int env, int width, int height, uint8_t *rgb)
{
	(void)user;
	memset(rgb, env, (size_t)width * (size_t)height * 3);
}

static void own_the_loop(const rlb_link *link, const rlb_spec *spec)
{
	double seen[OBS] = {0};
	unsigned char pixels[PIXELS] = {0};
	float action[2];
	rlb *r = rlb_open_on(link, spec);
	for (int going = r != NULL ? 0 : -1; going >= 0;) {
		seen[0] = (double)(rlb_seed(r) % 100);
		rlb_obs(r, 1, pixels);
		rlb_send_init(r, seen);
		while ((going = rlb_recv_action(r, action)) == 1) {
			rlb_info(r, 1, action[1]);
			if (action[0] > 0.8F)
				rlb_send_last(r, seen, action[1], RLB_TERMINATED);
			else
				rlb_send_state(r, seen, action[1]);
		}
	}
	rlb_close(r);
}

int main(int argc, char **argv)
{
	static parent p;
	const rlb_link link = {say, hear, hang_up, &p, ring};
	const rlb_callbacks functions = {.reset = reset, .step = step, .save = save, .load = load,
	                                 .render = render};
	rlb_spec spec = {.name = "fuzz",
	                 .obs = {{.name = "state", .kind = RLB_F64, .shape = {OBS}},
	                         {.name = "image", .kind = RLB_U8, .shape = {2, 2, 3}}},
	                 .action = {.kind = RLB_F32, .shape = {2}}, .info = {"one", "two"}, .state_size = STATE};
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
	unsigned long conversations = 0;
	int fd = memfd_create("fuzz", 0);
	if (fd < 0 || ftruncate(fd, ROOM) != 0 ||
		(p.shared = (char *)mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)) == MAP_FAILED) {
		perror("shared memory");
		return 1;
	}
	snprintf(p.path, sizeof p.path, "/proc/self/fd/%d", fd);
	for (p.random = 1; conversations < 1000 || time(NULL) < end; conversations++) {
		int owns_loop = conversations % 3 == 0;
		write_script(&p, owns_loop);
		if (owns_loop)
			own_the_loop(&link, &spec);
		else
			rlb_serve_on(&link, &spec, &functions, NULL);
	}
	printf("%lu conversations, %lu errors, %lu answers\n", conversations, p.errors, p.answers);
	return 0;
}
