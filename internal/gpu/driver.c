//go:build cuda

// The functions of the CUDA driver, found in its library when the program asks for devices. So the program is built and
// starts without a driver. Each function is a jump through a pointer, and needs to know no arguments.
#include "driver.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#define FUNCTIONS \
	X(cuDriverGetVersion) X(cuDeviceGet) X(cuDeviceGetCount) X(cuDeviceGetName) X(cuDeviceGetUuid) \
	X(cuDeviceTotalMem_v2) X(cuDeviceGetAttribute) X(cuDeviceCanAccessPeer) X(cuDeviceGetP2PAttribute) \
	X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease_v2) X(cuDevicePrimaryCtxReset_v2) \
	X(cuDevicePrimaryCtxSetFlags_v2) X(cuDevicePrimaryCtxGetState) X(cuCtxCreate_v2) X(cuCtxDestroy_v2) \
	X(cuCtxPushCurrent_v2) X(cuCtxPopCurrent_v2) X(cuCtxSetCurrent) X(cuCtxGetCurrent) X(cuCtxGetDevice) \
	X(cuCtxGetFlags) X(cuCtxGetApiVersion) X(cuCtxSynchronize) X(cuCtxSetLimit) X(cuCtxGetLimit) \
	X(cuCtxSetCacheConfig) X(cuCtxGetCacheConfig) X(cuCtxSetSharedMemConfig) X(cuCtxGetSharedMemConfig) \
	X(cuCtxGetStreamPriorityRange) X(cuCtxResetPersistingL2Cache) X(cuCtxEnablePeerAccess) \
	X(cuCtxDisablePeerAccess) X(cuModuleLoad) X(cuModuleLoadData) X(cuModuleLoadDataEx) X(cuModuleLoadFatBinary) \
	X(cuModuleUnload) X(cuModuleGetFunction) X(cuModuleGetGlobal_v2) X(cuModuleGetTexRef) X(cuModuleGetSurfRef) \
	X(cuLinkCreate_v2) X(cuLinkAddData_v2) X(cuLinkAddFile_v2) X(cuLinkComplete) X(cuLinkDestroy) \
	X(cuMemGetInfo_v2) X(cuMemAlloc_v2) X(cuMemAllocPitch_v2) X(cuMemAllocManaged) X(cuMemFree_v2) \
	X(cuMemFreeHost) X(cuMemHostRegister_v2) X(cuMemHostUnregister) X(cuMemGetAddressRange_v2) \
	X(cuMemAdvise) X(cuMemPrefetchAsync) X(cuPointerGetAttribute) \
	X(cuPointerSetAttribute) X(cuMemcpy) X(cuMemcpyAsync) X(cuMemcpyPeer) X(cuMemcpyPeerAsync) \
	X(cuMemcpyHtoD_v2) X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoH_v2) X(cuMemcpyDtoHAsync_v2) X(cuMemcpyDtoD_v2) \
	X(cuMemcpyDtoDAsync_v2) X(cuMemcpyDtoA_v2) X(cuMemcpyAtoD_v2) X(cuMemcpyHtoA_v2) X(cuMemcpyHtoAAsync_v2) \
	X(cuMemcpyAtoH_v2) X(cuMemcpyAtoHAsync_v2) X(cuMemcpyAtoA_v2) X(cuMemcpy2D_v2) X(cuMemcpy2DUnaligned_v2) \
	X(cuMemcpy2DAsync_v2) X(cuMemcpy3D_v2) X(cuMemcpy3DAsync_v2) X(cuMemcpy3DPeer) X(cuMemcpy3DPeerAsync) \
	X(cuMemsetD8_v2) X(cuMemsetD16_v2) X(cuMemsetD32_v2) X(cuMemsetD2D8_v2) X(cuMemsetD2D16_v2) \
	X(cuMemsetD2D32_v2) X(cuMemsetD8Async) X(cuMemsetD16Async) X(cuMemsetD32Async) X(cuMemsetD2D8Async) \
	X(cuMemsetD2D16Async) X(cuMemsetD2D32Async) X(cuArrayCreate_v2) X(cuArrayGetDescriptor_v2) X(cuArrayDestroy) \
	X(cuArray3DCreate_v2) X(cuArray3DGetDescriptor_v2) X(cuStreamCreate) X(cuStreamCreateWithPriority) \
	X(cuStreamDestroy_v2) X(cuStreamGetPriority) X(cuStreamGetFlags) X(cuStreamQuery) X(cuStreamSynchronize) \
	X(cuStreamWaitEvent) X(cuStreamAttachMemAsync) X(cuStreamWaitValue32_v2) X(cuStreamWriteValue32_v2) \
	X(cuEventCreate) X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize) X(cuEventElapsedTime) \
	X(cuEventDestroy_v2) X(cuFuncGetAttribute) X(cuFuncSetCacheConfig) X(cuFuncSetSharedMemConfig) \
	X(cuLaunchKernel) X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
	X(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags) X(cuGraphCreate) X(cuGraphClone) X(cuGraphDestroy) \
	X(cuGraphDestroyNode) X(cuGraphExecDestroy) X(cuGraphGetEdges) X(cuGraphAddDependencies) \
	X(cuGraphAddEmptyNode) X(cuGraphAddChildGraphNode) X(cuGraphAddHostNode) X(cuGraphAddKernelNode) \
	X(cuGraphAddMemcpyNode) X(cuGraphAddMemsetNode) X(cuSurfRefSetArray) X(cuSurfRefGetArray) \
	X(cuTexRefSetArray) X(cuTexRefGetArray) X(cuTexRefSetAddress_v2) X(cuTexRefGetAddress_v2) \
	X(cuTexRefSetAddress2D_v3) X(cuTexRefSetAddressMode) X(cuTexRefGetAddressMode) X(cuTexRefSetBorderColor) \
	X(cuTexRefGetBorderColor) X(cuTexRefSetFilterMode) X(cuTexRefGetFilterMode) X(cuTexRefSetFlags) \
	X(cuTexRefGetFlags) X(cuTexRefSetFormat) X(cuTexRefGetFormat) X(cuTexRefSetMaxAnisotropy) \
	X(cuTexRefGetMaxAnisotropy) X(cuTexRefSetMipmapFilterMode) X(cuTexRefSetMipmapLevelBias) \
	X(cuTexRefSetMipmapLevelClamp)

static CUresult no_driver(void) { return CUDA_ERROR_NO_DEVICE; }
static CUresult no_function(void) { return CUDA_ERROR_NOT_SUPPORTED; }

#if defined(__x86_64__)
#define JUMP(name) "jmp *found_" #name "(%rip)\n"
#elif defined(__aarch64__)
#define JUMP(name) "adrp x16, found_" #name "\n ldr x16, [x16, :lo12:found_" #name "]\n br x16\n"
#else
#error "the tag cuda needs x86-64 or arm64"
#endif

// Symbols are hidden: a library of the process never calls them.
#define X(name)                                                                                              \
	static void *found_##name __attribute__((used)) = no_driver;                                             \
	__asm__(".text\n.globl " #name "\n.hidden " #name "\n.type " #name ", %function\n" #name ":\n" JUMP(name));
FUNCTIONS
#undef X

static const struct {
	const char *name;
	void **found;
} functions[] = {
#define X(name) {#name, &found_##name},
	FUNCTIONS
#undef X
};

// gorgonia.org/cu calls cuInit when the program starts, and ends the program if it fails. rl_open calls the driver's.
__attribute__((visibility("hidden"))) CUresult cuInit(unsigned flags) {
	(void)flags;
	return CUDA_SUCCESS;
}

CUresult rl_open(uintptr_t interpreter, char *why, size_t size) {
	void *library = NULL;
	rl_fake_open(interpreter);
	if (!interpreter && !(library = dlopen("libcuda.so.1", RTLD_NOW))) {
		const char *reason = dlerror();
		strncat(why, reason ? reason : "libcuda.so.1 cannot be opened", size - 1);
		return CUDA_ERROR_NO_DEVICE;
	}
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		void *f = interpreter ? rl_fake(functions[i].name) : dlsym(library, functions[i].name);
		*functions[i].found = f ? f : no_function;
	}
	CUresult (*init)(unsigned) = interpreter ? NULL : dlsym(library, "cuInit");
	return init ? init(0) : CUDA_SUCCESS;
}

CUresult rl_launch(CUcontext context, CUfunction f, unsigned x, unsigned y, unsigned threads, CUstream stream,
	uint64_t *args, int n) {
	void *params[RL_ARGS];
	for (int i = 0; i < n; i++)
		params[i] = &args[i]; // of a parameter of 4 bytes, the first half: the machine is little-endian
	CUresult result = cuCtxSetCurrent(context);
	return result ? result : cuLaunchKernel(f, x, y, 1, threads, 1, 1, 0, stream, params, NULL);
}
