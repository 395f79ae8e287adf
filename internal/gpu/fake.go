//go:build cuda

package gpu

// #include "driver.h"
import "C"

// books are what the fake driver has given out and not got back, and the launches so far.
type books struct{ contexts, streams, modules, bytes, launches int }

// fakeBooks returns the books of the fake driver.
func fakeBooks() books {
	var contexts, streams, modules, bytes, launches C.long
	C.rl_books(&contexts, &streams, &modules, &bytes, &launches)
	return books{int(contexts), int(streams), int(modules), int(bytes), int(launches)}
}

// failCall makes the n-th call of the fake driver from now on fail for lack of memory. 0 means that none fails.
func failCall(n int) { C.rl_fail(C.long(n), C.CUDA_ERROR_OUT_OF_MEMORY) }
