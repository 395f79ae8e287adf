// The border to the CUDA driver, beside gorgonia.org/cu.
#pragma once
#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

// The largest number of arguments of a kernel.
#define RL_ARGS 18

// rl_open finds the driver's functions and initialises it. interpreter is 0, or a handle of Go: then the functions are
// those of the fake driver. If there is no library, rl_open writes the reason to why, which is empty and has size
// bytes.
CUresult rl_open(uintptr_t interpreter, char *why, size_t size);

// rl_launch starts f on a grid of x by y blocks, with n arguments of 8 bytes each. It makes the context current in this
// thread.
CUresult rl_launch(CUcontext context, CUfunction f, unsigned x, unsigned y, unsigned threads, CUstream stream,
	uint64_t *args, int n);

// rl_fake_open makes the fake driver run kernels by an interpreter.
void rl_fake_open(uintptr_t interpreter);

// rl_fake returns a function of the fake driver, or NULL if it has none of that name.
void *rl_fake(const char *name);

// rl_fail makes call n from now on fail with the given result; 0 means none. Calls are those of the fake driver that
// can fail on a device. It returns whether the call that it chose before is still to come.
int rl_fail(long n, CUresult result);

// rl_books returns what the fake driver's user has not given back, and the number of launches so far.
typedef struct {
	long contexts, streams, events, modules, bytes, pinned, launches;
} rl_book;
void rl_books(rl_book *b);

// rl_wrong returns what the last call that failed did wrong, for the fake driver's user. It is empty if there is none.
const char *rl_wrong(void);
