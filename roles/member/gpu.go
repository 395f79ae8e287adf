package member

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/rlinf/rlinf/internal/gpu"
	"github.com/rlinf/rlinf/policy/nn/kernel/device"
)

// A GPU is the device of an actor.
type GPU struct {
	Ops    *device.Ops
	driver gpu.Driver
}

// OpenGPU opens the device of the rank with the given number on its node.
func OpenGPU(local int) (*GPU, error) {
	_, number, err := gpu.Of(local)
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
	return &GPU{ops, driver}, nil
}

// Close frees the memory.
func (g *GPU) Close() error {
	g.Ops.Close()
	return g.driver.Close()
}

// Guard calls f. If code in f itself accesses memory that is on a device alone, Guard returns an error with the place.
func Guard(f func() error) (err error) {
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
