//go:build cuda

package gpu

// #include "driver.h"
import "C"

import (
	"runtime/cgo"
	"unsafe"

	"github.com/rlinf/rlinf/internal/ptx"
)

// An interpreter runs the kernels of the fake driver, which calls its functions one at a time. Modules and kernels have
// their index plus 1 as handles.
type interpreter struct {
	memory  ptx.Memory
	modules []*ptx.Module
	kernels []*ptx.Kernel
}

func interpreterOf(handle C.uintptr_t) *interpreter { return cgo.Handle(handle).Value().(*interpreter) }

// rl_map makes memory of the process memory of the device.
//
//export rl_map
func rl_map(handle C.uintptr_t, at C.uintptr_t, size C.size_t) {
	// The memory is from malloc, so its address is no pointer of Go.
	data := unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), int(size))
	if err := interpreterOf(handle).memory.Map(uint64(at), data); err != nil {
		panic(err) // malloc has returned memory that is in use
	}
}

//export rl_unmap
func rl_unmap(handle C.uintptr_t, at C.uintptr_t) { interpreterOf(handle).memory.Unmap(uint64(at)) }

// rl_load returns the handle of a module, or 0 if the interpreter does not know the text.
//
//export rl_load
func rl_load(handle C.uintptr_t, text *C.char) C.uintptr_t {
	d := interpreterOf(handle)
	m, err := ptx.Parse(C.GoString(text))
	if err != nil {
		return 0
	}
	d.modules = append(d.modules, m)
	return C.uintptr_t(len(d.modules))
}

// rl_function returns the handle of a kernel, or 0 if the module has none of that name.
//
//export rl_function
func rl_function(handle, module C.uintptr_t, name *C.char) C.uintptr_t {
	d := interpreterOf(handle)
	k := d.modules[module-1].Kernel(C.GoString(name))
	if k == nil {
		return 0
	}
	d.kernels = append(d.kernels, k)
	return C.uintptr_t(len(d.kernels))
}

// rl_run runs a kernel, and reports whether it has made no fault. It writes the fault to why, which has size bytes.
//
//export rl_run
func rl_run(handle, function C.uintptr_t, x, y, threads C.uint, params *unsafe.Pointer, why *C.char,
	size C.size_t) C.int {
	d := interpreterOf(handle)
	k := d.kernels[function-1]
	args := make([]uint64, len(k.Params))
	for i, p := range unsafe.Slice(params, len(args)) {
		if k.Params[i] == 8 {
			args[i] = *(*uint64)(p)
		} else {
			args[i] = uint64(*(*uint32)(p))
		}
	}
	err := k.Launch(&d.memory, ptx.Grid{X: int(x), Y: int(y)}, int(threads), args)
	if err == nil {
		return 1
	}
	text := unsafe.Slice((*byte)(unsafe.Pointer(why)), int(size))
	text[copy(text[:len(text)-1], err.Error())] = 0
	return 0
}
