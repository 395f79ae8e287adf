//go:build cuda

package gpu

// #include <stdlib.h>
// #include "driver.h"
import "C"

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"gorgonia.org/cu"
)

// A context is a Driver: a CUDA context with one stream.
type context struct {
	device  int
	name    string
	handle  cu.CUContext
	stream  cu.Stream
	modules []cu.Module
	blocks  []cu.DevicePtr
	args    *[C.RL_ARGS]C.uint64_t // memory of C
}

// Open returns a new context on the device with the given number.
func Open(device int) (Driver, error) {
	devices, why := Devices()
	if len(devices) == 0 {
		return nil, errors.New(why)
	}
	if device < 0 || device >= len(devices) {
		return nil, fmt.Errorf("GPU %d: expected 0 to %d", device, len(devices)-1)
	}
	c := &context{device: device, name: devices[device].Name}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d, err := cu.GetDevice(device)
	if err == nil {
		c.handle, err = d.MakeContext(cu.SchedBlockingSync)
	}
	if err != nil {
		return nil, c.failed("create a context", err)
	}
	if c.stream, err = cu.MakeStream(cu.NonBlocking); err != nil {
		return nil, errors.Join(c.failed("create a stream", err), c.failed("destroy the context", c.handle.Destroy()))
	}
	c.args = (*[C.RL_ARGS]C.uint64_t)(C.calloc(C.RL_ARGS, 8))
	return c, nil
}

// failed returns err with the name of a call, or nil if err is nil.
func (c *context) failed(call string, err error) error {
	if err == nil {
		return nil
	}
	if why := C.GoString(C.rl_wrong()); why != "" {
		err = fmt.Errorf("%w: %s", err, why)
	}
	return &Error{Device: c.device, Name: c.name, Call: call, Err: err}
}

// do makes a call of cu in a thread that has the context.
func (c *context) do(call string, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := cu.SetCurrentContext(c.handle)
	if err == nil {
		err = f()
	}
	return c.failed(call, err)
}

// Alloc returns the device address of size bytes, a multiple of 256. The memory is not initialised.
func (c *context) Alloc(size int) (address uint64, err error) {
	err = c.do("allocate memory", func() error {
		p, err := cu.MemAlloc(int64(size))
		if err == nil {
			c.blocks = append(c.blocks, p)
		}
		address = uint64(p)
		return err
	})
	return address, err
}

// Upload copies bytes to the device.
func (c *context) Upload(to uint64, from []byte) error {
	return c.do("copy to the device", func() error {
		p := unsafe.Pointer(unsafe.SliceData(from))
		err := cu.MemcpyHtoDAsync(cu.DevicePtr(to), p, int64(len(from)), c.stream)
		if err == nil {
			err = c.stream.Synchronize() // the caller may change the bytes now
		}
		return err
	})
}

// Download copies bytes from the device, when all work before it is done.
func (c *context) Download(to []byte, from uint64) error {
	return c.do("copy from the device", func() error {
		p := unsafe.Pointer(unsafe.SliceData(to))
		err := cu.MemcpyDtoHAsync(p, cu.DevicePtr(from), int64(len(to)), c.stream)
		if err == nil {
			err = c.stream.Synchronize()
		}
		return err
	})
}

// Clear sets bytes of the device to 0.
func (c *context) Clear(address uint64, size int) error {
	return c.do("clear memory", func() error {
		return cu.MemsetD8Async(cu.DevicePtr(address), 0, int64(size), c.stream)
	})
}

// Load compiles PTX for the device and returns the functions with the given names.
func (c *context) Load(ptx string, names []string) (functions []uintptr, err error) {
	err = c.do("load kernels", func() error {
		m, err := cu.LoadData(ptx)
		if err != nil {
			return err
		}
		c.modules = append(c.modules, m)
		for _, name := range names {
			f, err := m.Function(name)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			functions = append(functions, *(*uintptr)(unsafe.Pointer(&f))) // the driver's handle is the only field
		}
		return nil
	})
	return functions, err
}

// Launch starts function f on a grid of x by y blocks of 256 threads. An argument has the bits of its parameter.
func (c *context) Launch(f uintptr, x, y int, args Args) error {
	for i, a := range args {
		c.args[i] = C.uint64_t(a)
	}
	const threads = 256
	result := C.rl_launch(*(*C.CUcontext)(unsafe.Pointer(&c.handle)), *(*C.CUfunction)(unsafe.Pointer(&f)), C.uint(x),
		C.uint(y), threads, *(*C.CUstream)(unsafe.Pointer(&c.stream)), &c.args[0], C.RL_ARGS)
	if result == C.CUDA_SUCCESS {
		return nil
	}
	return c.failed("start a kernel", fmt.Errorf("error %d", result))
}

// Close waits for the work, and frees memory, kernels and the context.
func (c *context) Close() error {
	var errs []error
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	note(c.do("close", func() error {
		note(c.stream.Synchronize())
		for _, p := range c.blocks {
			note(cu.MemFree(p))
		}
		for _, m := range c.modules {
			note(m.Unload())
		}
		note(c.stream.Destroy())
		return c.handle.Destroy()
	}))
	c.blocks, c.modules = nil, nil
	C.free(unsafe.Pointer(c.args))
	return errors.Join(errs...)
}
