//go:build cuda

package gpu

// #include <stdlib.h>
// #include "driver.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"gorgonia.org/cu"
)

// A context is a Driver: a CUDA context with two streams.
type context struct {
	device  int
	name    string
	handle  cu.CUContext
	streams []cu.Stream // stream and fetches, as far as they are made
	stream  cu.Stream   // all work except that of fetches
	fetches cu.Stream   // the copies of Fetch
	modules []cu.Module
	blocks  []cu.DevicePtr
	pinned  [][]byte               // stays in use, and Go does not move memory
	args    *[C.RL_ARGS]C.uint64_t // memory of C

	arrived         []cu.Event // the end of each copy of Fetch
	fetched, waited int        // the number of copies, and of those for which Fetched has waited; 0 after the last one
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
	for range 2 {
		s, err := cu.MakeStream(cu.NonBlocking)
		if err != nil {
			return nil, errors.Join(c.failed("create a stream", err), c.Close())
		}
		c.streams = append(c.streams, s)
	}
	c.stream, c.fetches = c.streams[0], c.streams[1]
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

// Pin registers memory with the driver. If a page had other memory, too, the driver would refuse copies of that memory.
func (c *context) Pin(memory []byte) {
	whole, page := memory[:cap(memory)], os.Getpagesize()
	p := unsafe.Pointer(unsafe.SliceData(whole))
	if len(whole) == 0 || len(whole)%page != 0 || uintptr(p)%uintptr(page) != 0 {
		return
	}
	if c.do("pin memory", func() error { return result(C.cuMemHostRegister_v2(p, C.size_t(len(whole)), 0)) }) == nil {
		c.pinned = append(c.pinned, whole)
	}
}

// result returns the error of a call of ours.
func result(r C.CUresult) error {
	if r == C.CUDA_SUCCESS {
		return nil
	}
	return fmt.Errorf("error %d", r)
}

// Upload copies bytes to the device.
func (c *context) Upload(to uint64, from []byte) error {
	err := c.Send(to, from)
	if err == nil {
		err = c.do("copy to the device", c.stream.Synchronize) // the caller may change the bytes now
	}
	return err
}

// Send starts an Upload.
func (c *context) Send(to uint64, from []byte) error {
	return c.do("copy to the device", func() error {
		p := unsafe.Pointer(unsafe.SliceData(from))
		return cu.MemcpyHtoDAsync(cu.DevicePtr(to), p, int64(len(from)), c.stream)
	})
}

// Fetch starts a copy of bytes from the device, when all work before it is done.
func (c *context) Fetch(to []byte, from uint64) error {
	return c.do("start a copy from the device", func() error {
		if c.fetched == len(c.arrived) {
			e, err := cu.MakeEvent(cu.BlockingSyncEvent | cu.DisableTiming)
			if err != nil {
				return err
			}
			c.arrived = append(c.arrived, e)
		}
		e := c.arrived[c.fetched]
		err := e.Record(c.stream)
		if err == nil {
			err = c.fetches.Wait(e, 0)
		}
		if err == nil {
			p := unsafe.Pointer(unsafe.SliceData(to))
			err = cu.MemcpyDtoHAsync(p, cu.DevicePtr(from), int64(len(to)), c.fetches)
		}
		if err == nil {
			err = e.Record(c.fetches)
		}
		c.fetched++
		return err
	})
}

// Fetched waits for the first copy of Fetch for which no Fetched has waited.
func (c *context) Fetched() error {
	e := c.arrived[c.waited]
	if c.waited++; c.waited == c.fetched {
		c.fetched, c.waited = 0, 0
	}
	return c.do("wait for a copy from the device", e.Synchronize)
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
	return c.failed("start a kernel", result(C.rl_launch(*(*C.CUcontext)(unsafe.Pointer(&c.handle)),
		*(*C.CUfunction)(unsafe.Pointer(&f)), C.uint(x), C.uint(y), threads, *(*C.CUstream)(unsafe.Pointer(&c.stream)),
		&c.args[0], C.RL_ARGS)))
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
		for _, s := range c.streams {
			note(s.Synchronize())
		}
		for _, m := range c.pinned {
			note(result(C.cuMemHostUnregister(unsafe.Pointer(unsafe.SliceData(m)))))
		}
		for _, p := range c.blocks {
			note(cu.MemFree(p))
		}
		for _, m := range c.modules {
			note(m.Unload())
		}
		for i := range c.arrived {
			note(cu.DestroyEvent(&c.arrived[i]))
		}
		for _, s := range c.streams {
			note(s.Destroy())
		}
		return c.handle.Destroy()
	}))
	c.blocks, c.modules, c.pinned, c.arrived, c.streams = nil, nil, nil, nil, nil
	C.free(unsafe.Pointer(c.args))
	return errors.Join(errs...)
}
