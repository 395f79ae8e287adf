package worker

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/rlinf/rlinf/internal/gpu"
	"github.com/rlinf/rlinf/policy/nn/kernel/device"
)

// A deviceOf is the GPU of an actor.
type deviceOf struct {
	driver gpu.Driver
	ops    *device.Ops
}

// openDevice opens the GPU of this rank.
func (s *Shared) openDevice() (*deviceOf, error) {
	_, number, err := gpu.Of(s.world.LocalRank())
	if err != nil {
		return nil, err
	}
	driver, err := gpu.Open(number)
	if err != nil {
		return nil, err
	}
	ops, err := device.New(driver)
	if err != nil {
		return nil, errors.Join(err, driver.Close())
	}
	return &deviceOf{driver, ops}, nil
}

// close frees the memory.
func (d *deviceOf) close() error {
	d.ops.Close()
	return d.driver.Close()
}

// guard calls f. If code in f itself accesses memory that is on a device alone, guard returns an error with the place.
func guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		v := recover()
		fault, ok := v.(interface {
			error
			Addr() uintptr
		})
		if v != nil && !ok {
			panic(v)
		}
		if ok {
			err = fmt.Errorf("%s: access to address %#x, which is memory of a device or invalid: %w", place(),
				fault.Addr(), fault)
		}
	}()
	return f()
}

// place returns the function, file and line of the fault that is being recovered.
func place() string {
	var callers [64]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(0, callers[:])])
	for faulted := false; ; {
		frame, more := frames.Next()
		if faulted {
			return fmt.Sprintf("%s (%s:%d)", frame.Function, frame.File, frame.Line)
		}
		if faulted = frame.Function == "runtime.sigpanic"; !more {
			return "unknown place"
		}
	}
}
