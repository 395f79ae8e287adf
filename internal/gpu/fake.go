//go:build cuda

package gpu

// #include "driver.h"
import "C"

// books are what the fake driver has given out and not got back, and the launches so far.
type books struct{ contexts, streams, events, modules, bytes, pinned, launches int }

// fakeBooks returns the books of the fake driver.
func fakeBooks() books {
	var b C.rl_book
	C.rl_books(&b)
	return books{int(b.contexts), int(b.streams), int(b.events), int(b.modules), int(b.bytes), int(b.pinned),
		int(b.launches)}
}

// failCall makes the n-th call of the fake driver from now on fail for lack of memory. 0 means that none fails. It
// reports whether the call that it chose before is still to come.
func failCall(n int) (left bool) { return C.rl_fail(C.long(n), C.CUDA_ERROR_OUT_OF_MEMORY) != 0 }
