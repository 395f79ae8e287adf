//go:build cuda

// A fake driver: one device whose memory is memory of the process. It checks what a driver checks, and what a driver
// lets pass: that a context is current, that ranges are allocated, that nothing is freed twice. Kernels run in
// internal/ptx. Every call completes before it returns, except for copies of pinned memory: they happen as late as the
// program allows, so that missing waits give other bytes.
#include "driver.h"
#include "_cgo_export.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A thing is a context, a stream, an event, a module, an allocation or pinned memory. A kind of things is a list.
typedef struct thing {
	struct thing *next;
	uintptr_t id; // the handle, or the address of memory
	uintptr_t context;
	size_t size;
	long worked, waited; // calls: the last that has changed memory in this stream, and the last it has waited for
	uintptr_t stream;    // of an event, which is recorded after call waited
} thing;

// A copy waits in its stream.
typedef struct copy {
	struct copy *next;
	void *to;
	const void *from;
	size_t size;
	uintptr_t stream;
	long call;
} copy;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static thing *contexts, *streams, *events, *modules, *blocks, *pinned;
static copy *copies; // in the order of their calls
static long launches, until, calls;
static CUresult planned;
static char wrong[400];
static uintptr_t interpreter; // a handle of Go
static __thread uintptr_t current; // the context of this thread

enum { MEMORY = 1 << 30, ALIGNMENT = 256 };

static thing *find(thing *list, uintptr_t id) {
	while (list && list->id != id)
		list = list->next;
	return list;
}

static thing *add(thing **list, uintptr_t id, size_t size) {
	thing *t = calloc(1, sizeof *t);
	*t = (thing){.next = *list, .id = id ? id : (uintptr_t)t, .context = current, .size = size};
	return *list = t;
}

static int drop(thing **list, uintptr_t id) {
	for (; *list; list = &(*list)->next)
		if ((*list)->id == id) {
			thing *t = *list;
			*list = t->next;
			free(t);
			return 1;
		}
	return 0;
}

static CUresult fault(CUresult result, const char *what) {
	snprintf(wrong, sizeof wrong, "%s", what);
	return result;
}

// begin checks that a call may be made now. needs says that a context must be current.
static CUresult begin(int needs) {
	calls++;
	if (until && --until == 0)
		return fault(planned, "planned failure");
	if (needs && !find(contexts, current))
		return fault(CUDA_ERROR_INVALID_CONTEXT, "no context is current in this thread");
	return CUDA_SUCCESS;
}

// A call is a body between begin and the end of the lock.
#define CALL(needs, ...)                                      \
	pthread_mutex_lock(&lock);                                \
	CUresult result = begin(needs);                           \
	if (!result) __VA_ARGS__                                  \
	pthread_mutex_unlock(&lock);                              \
	return result;

// allocated says whether all n bytes at an address are in one allocation.
static CUresult allocated(CUdeviceptr at, size_t n) {
	for (thing *b = blocks; b; b = b->next)
		if (at >= b->id && at - b->id + n <= b->size)
			return CUDA_SUCCESS;
	return fault(CUDA_ERROR_INVALID_VALUE, "a copy outside of an allocation");
}

static CUresult fake_DriverGetVersion(int *version) {
	*version = 12000;
	return CUDA_SUCCESS;
}

static CUresult fake_DeviceGetCount(int *count) {
	*count = 1;
	return CUDA_SUCCESS;
}

static CUresult fake_DeviceGet(CUdevice *device, int ordinal) {
	*device = ordinal;
	return ordinal ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

static CUresult fake_DeviceGetName(char *name, int size, CUdevice device) {
	(void)device;
	snprintf(name, (size_t)size, "interpreter of PTX");
	return CUDA_SUCCESS;
}

static CUresult fake_DeviceGetUuid(CUuuid *uuid, CUdevice device) {
	(void)device;
	memset(uuid, 0, sizeof *uuid);
	return CUDA_SUCCESS;
}

static CUresult fake_DeviceTotalMem(size_t *bytes, CUdevice device) {
	(void)device;
	*bytes = MEMORY;
	return CUDA_SUCCESS;
}

static CUresult fake_CtxCreate(CUcontext *context, unsigned flags, CUdevice device) {
	(void)flags, (void)device;
	CALL(0, {
		current = add(&contexts, 0, 0)->id;
		*context = (CUcontext)current;
	})
}

static CUresult fake_CtxDestroy(CUcontext context) {
	CALL(0, {
		for (int i = 0; i < 2; i++)
			for (thing *b = i ? pinned : blocks; b; b = b->next)
				if (b->context == (uintptr_t)context)
					result = fault(CUDA_ERROR_INVALID_VALUE, "the context still has memory");
		if (!drop(&contexts, (uintptr_t)context))
			result = fault(CUDA_ERROR_INVALID_CONTEXT, "the context does not exist");
	})
}

static CUresult fake_CtxSetCurrent(CUcontext context) {
	CALL(0, {
		current = (uintptr_t)context;
		if (context && !find(contexts, current))
			result = fault(CUDA_ERROR_INVALID_CONTEXT, "the context does not exist");
	})
}

static CUresult fake_CtxSynchronize(void) { CALL(1, {}) }

static CUresult fake_StreamCreate(CUstream *stream, unsigned flags) {
	(void)flags;
	CALL(1, { *stream = (CUstream)add(&streams, 0, 0)->id; })
}

static CUresult fake_StreamDestroy(CUstream stream) {
	CALL(1, {
		for (copy *c = copies; c; c = c->next)
			if (c->stream == (uintptr_t)stream)
				result = fault(CUDA_ERROR_INVALID_VALUE, "the stream still has copies");
		if (!drop(&streams, (uintptr_t)stream))
			result = fault(CUDA_ERROR_INVALID_HANDLE, "the stream does not exist");
	})
}

static CUresult on(CUstream stream) {
	if (find(streams, (uintptr_t)stream))
		return CUDA_SUCCESS;
	return fault(CUDA_ERROR_INVALID_HANDLE, "the stream does not exist");
}

// complete makes the copies that wait in a stream, those of the calls up to the given one.
static void complete(uintptr_t stream, long call) {
	for (copy **at = &copies; *at;) {
		copy *c = *at;
		if (c->stream == stream && c->call <= call) {
			memcpy(c->to, c->from, c->size);
			*at = c->next;
			free(c);
		} else {
			at = &c->next;
		}
	}
}

// work begins work in a stream that changes memory of the device.
static CUresult work(CUstream stream) {
	CUresult result = on(stream);
	if (!result) {
		complete((uintptr_t)stream, calls);
		find(streams, (uintptr_t)stream)->worked = calls;
	}
	return result;
}

static CUresult fake_StreamSynchronize(CUstream stream) {
	CALL(1, {
		if (!(result = on(stream)))
			complete((uintptr_t)stream, calls);
	})
}

static CUresult fake_EventCreate(CUevent *event, unsigned flags) {
	(void)flags;
	CALL(1, { *event = (CUevent)add(&events, 0, 0)->id; })
}

static CUresult fake_EventDestroy(CUevent event) {
	CALL(1, {
		if (!drop(&events, (uintptr_t)event))
			result = fault(CUDA_ERROR_INVALID_HANDLE, "the event does not exist");
	})
}

static CUresult happens(CUevent event) {
	if (find(events, (uintptr_t)event))
		return CUDA_SUCCESS;
	return fault(CUDA_ERROR_INVALID_HANDLE, "the event does not exist");
}

static CUresult fake_EventRecord(CUevent event, CUstream stream) {
	CALL(1, {
		if (!(result = on(stream)) && !(result = happens(event))) {
			thing *e = find(events, (uintptr_t)event);
			e->stream = (uintptr_t)stream, e->waited = calls;
		}
	})
}

static CUresult fake_EventSynchronize(CUevent event) {
	CALL(1, {
		if (!(result = happens(event)))
			complete(find(events, (uintptr_t)event)->stream, find(events, (uintptr_t)event)->waited);
	})
}

static CUresult fake_StreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
	(void)flags;
	CALL(1, {
		if (!(result = on(stream)) && !(result = happens(event))) {
			thing *e = find(events, (uintptr_t)event);
			complete(e->stream, e->waited);
			find(streams, (uintptr_t)stream)->waited = e->waited;
		}
	})
}

static CUresult fake_MemGetInfo(size_t *available, size_t *total) {
	CALL(1, {
		size_t used = 0;
		for (thing *b = blocks; b; b = b->next)
			used += b->size;
		*available = MEMORY - used;
		*total = MEMORY;
	})
}

// Memory of an allocation begins with other values than 0.
static CUresult fake_MemAlloc(CUdeviceptr *address, size_t size) {
	CALL(1, {
		size_t used = size;
		for (thing *b = blocks; b; b = b->next)
			used += b->size;
		size_t whole = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
		void *p = size && used <= MEMORY ? aligned_alloc(ALIGNMENT, whole) : NULL;
		if (p) {
			memset(p, 0xa5, size);
			add(&blocks, (uintptr_t)p, size);
			rl_map(interpreter, (uintptr_t)p, size);
			*address = (uintptr_t)p;
		} else {
			result = fault(size ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE, "no memory for an allocation");
		}
	})
}

static CUresult fake_MemFree(CUdeviceptr address) {
	CALL(1, {
		if (drop(&blocks, (uintptr_t)address)) {
			rl_unmap(interpreter, (uintptr_t)address);
			free((void *)(uintptr_t)address);
		} else {
			result = fault(CUDA_ERROR_INVALID_VALUE, "freed memory that is not allocated");
		}
	})
}

// pins says how much of n bytes of the program is in pinned pages: 0 for nothing, 1 for a part, 2 for all of it.
static int pins(uintptr_t at, size_t n) {
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	for (thing *m = pinned; m; m = m->next)
		if (at < (m->id + m->size + page - 1) / page * page && m->id / page * page < at + n)
			return at >= m->id && at - m->id + n <= m->size ? 2 : 1;
	return 0;
}

static CUresult fake_MemHostRegister(void *p, size_t size, unsigned flags) {
	(void)flags;
	CALL(1, {
		uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)p / page * page;
		if (!size)
			result = fault(CUDA_ERROR_INVALID_VALUE, "no memory to pin");
		else if (pins(from, ((uintptr_t)p + size - from + page - 1) / page * page))
			result = fault(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, "a page is pinned already");
		else
			add(&pinned, (uintptr_t)p, size);
	})
}

static CUresult fake_MemHostUnregister(void *p) {
	CALL(1, {
		if (!drop(&pinned, (uintptr_t)p))
			result = fault(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, "the memory is not pinned");
	})
}

// transfer copies between the device and the program. The copy waits in its stream if the program's memory is pinned.
static CUresult transfer(void *to, const void *from, size_t size, CUdeviceptr device, const void *host,
	CUstream stream) {
	CUresult result = on(stream);
	if (result || (result = allocated(device, size)))
		return result;
	int how = pins((uintptr_t)host, size);
	if (how == 1)
		return fault(CUDA_ERROR_INVALID_VALUE, "a copy of memory that is pinned in part");
	for (thing *s = streams; s; s = s->next)
		if (s->context == current && s->id != (uintptr_t)stream
				&& s->worked > find(streams, (uintptr_t)stream)->waited)
			return fault(CUDA_ERROR_INVALID_VALUE, "a copy that does not wait for the work before it");
	copy **last = &copies;
	while (*last)
		last = &(*last)->next;
	*last = malloc(sizeof **last);
	**last = (copy){NULL, to, from, size, (uintptr_t)stream, calls};
	if (how == 0)
		complete((uintptr_t)stream, calls);
	return result;
}

static CUresult fake_MemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t size, CUstream stream) {
	CALL(1, {
		if (!(result = work(stream)))
			result = transfer((void *)(uintptr_t)to, from, size, to, from, stream);
	})
}

static CUresult fake_MemcpyDtoHAsync(void *to, CUdeviceptr from, size_t size, CUstream stream) {
	CALL(1, { result = transfer(to, (const void *)(uintptr_t)from, size, from, to, stream); })
}

static CUresult fake_MemsetD8Async(CUdeviceptr to, unsigned char value, size_t n, CUstream stream) {
	CALL(1, {
		if (!(result = work(stream)) && !(result = allocated(to, n)))
			memset((void *)(uintptr_t)to, value, n);
	})
}

static CUresult fake_ModuleLoadData(CUmodule *module, const void *image) {
	CALL(1, {
		uintptr_t id = rl_load(interpreter, (char *)image);
		if (id)
			*module = (CUmodule)add(&modules, id, 0)->id;
		else
			result = fault(CUDA_ERROR_INVALID_PTX, "the interpreter does not know the PTX");
	})
}

static CUresult fake_ModuleUnload(CUmodule module) {
	CALL(1, {
		if (!drop(&modules, (uintptr_t)module))
			result = fault(CUDA_ERROR_INVALID_HANDLE, "the module does not exist");
	})
}

static CUresult fake_ModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
	CALL(1, {
		uintptr_t id = find(modules, (uintptr_t)module) ? rl_function(interpreter, (uintptr_t)module, (char *)name) : 0;
		*function = (CUfunction)id;
		if (!id)
			result = fault(CUDA_ERROR_NOT_FOUND, "the module has no such function");
	})
}

static CUresult fake_LaunchKernel(CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,
	unsigned blockY, unsigned blockZ, unsigned shared, CUstream stream, void **params, void **extra) {
	(void)extra;
	CALL(1, {
		launches++;
		if (gridZ != 1 || blockY != 1 || blockZ != 1 || shared || gridY > 65535)
			result = fault(CUDA_ERROR_INVALID_VALUE, "a grid that no kernel here has");
		else if (!(result = work(stream)) && !rl_run(interpreter, (uintptr_t)function, gridX, gridY, blockX, params,
				wrong, sizeof wrong))
			result = CUDA_ERROR_LAUNCH_FAILED;
	})
}

void rl_fake_open(uintptr_t handle) { interpreter = handle; }

void *rl_fake(const char *name) {
	static const struct {
		const char *name;
		void *f;
	} all[] = {
		{"cuDriverGetVersion", fake_DriverGetVersion}, {"cuDeviceGetCount", fake_DeviceGetCount},
		{"cuDeviceGet", fake_DeviceGet}, {"cuDeviceGetName", fake_DeviceGetName},
		{"cuDeviceGetUuid", fake_DeviceGetUuid}, {"cuDeviceTotalMem_v2", fake_DeviceTotalMem},
		{"cuCtxCreate_v2", fake_CtxCreate}, {"cuCtxDestroy_v2", fake_CtxDestroy},
		{"cuCtxSetCurrent", fake_CtxSetCurrent}, {"cuCtxSynchronize", fake_CtxSynchronize},
		{"cuStreamCreate", fake_StreamCreate}, {"cuStreamDestroy_v2", fake_StreamDestroy},
		{"cuStreamSynchronize", fake_StreamSynchronize}, {"cuStreamWaitEvent", fake_StreamWaitEvent},
		{"cuEventCreate", fake_EventCreate}, {"cuEventDestroy_v2", fake_EventDestroy},
		{"cuEventRecord", fake_EventRecord}, {"cuEventSynchronize", fake_EventSynchronize},
		{"cuMemHostRegister_v2", fake_MemHostRegister}, {"cuMemHostUnregister", fake_MemHostUnregister},
		{"cuMemGetInfo_v2", fake_MemGetInfo},
		{"cuMemAlloc_v2", fake_MemAlloc}, {"cuMemFree_v2", fake_MemFree},
		{"cuMemcpyHtoDAsync_v2", fake_MemcpyHtoDAsync}, {"cuMemcpyDtoHAsync_v2", fake_MemcpyDtoHAsync},
		{"cuMemsetD8Async", fake_MemsetD8Async}, {"cuModuleLoadData", fake_ModuleLoadData},
		{"cuModuleUnload", fake_ModuleUnload}, {"cuModuleGetFunction", fake_ModuleGetFunction},
		{"cuLaunchKernel", fake_LaunchKernel},
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (!strcmp(name, all[i].name))
			return all[i].f;
	return NULL;
}

int rl_fail(long n, CUresult result) {
	pthread_mutex_lock(&lock);
	int left = until > 0;
	until = n;
	planned = result;
	pthread_mutex_unlock(&lock);
	return left;
}

static long length(const thing *list) {
	long n = 0;
	for (; list; list = list->next)
		n++;
	return n;
}

static long sizes(const thing *list) {
	long n = 0;
	for (; list; list = list->next)
		n += (long)list->size;
	return n;
}

void rl_books(rl_book *b) {
	pthread_mutex_lock(&lock);
	*b = (rl_book){length(contexts), length(streams), length(events), length(modules), sizes(blocks), sizes(pinned),
		launches};
	pthread_mutex_unlock(&lock);
}

const char *rl_wrong(void) { return wrong; }
