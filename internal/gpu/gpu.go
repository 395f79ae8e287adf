// Package gpu answers: which CUDA devices can this process use, and how does it call them? It is the border to the CUDA
// driver. Without the build tag cuda it finds no device.
//
// The tag needs no toolkit. The folder cuda has a header that declares what gorgonia.org/cu names, and the driver's
// library is looked for when the program asks for devices. cu has the devices, contexts, memory, copies and modules;
// driver.c starts kernels.
//
// If the environment has RLINF_CUDA=interpreter, there is one device: a fake driver, whose kernels run in internal/ptx.
package gpu

import (
	"errors"
	"fmt"
)

// A Device is a GPU that is visible to this process.
type Device struct {
	Name   string
	UUID   string
	Memory int64  // bytes
	Driver string // version of CUDA that the driver supports
}

// Of returns the device of the rank with the given number on its node, and the number of the device: ranks take the
// visible devices in turn.
func Of(local int) (d Device, number int, err error) {
	devices, why := Devices()
	if len(devices) == 0 {
		return d, 0, errors.New(why)
	}
	number = local % len(devices)
	return devices[number], number, nil
}

// An Error is a call that a device has refused, or in which it has failed.
type Error struct {
	Device int // number of the device
	Name   string
	Call   string
	Err    error
}

// Error names the call and the device.
func (e *Error) Error() string {
	return fmt.Sprintf("GPU %d (%s): %s: %v", e.Device, e.Name, e.Call, e.Err)
}

// Unwrap returns the driver's error.
func (e *Error) Unwrap() error { return e.Err }

// Args are the arguments of a kernel.
type Args = [18]uint64

// A Driver is one device in use: its memory, its kernels, and work that completes in the order of the calls. Only one
// goroutine at a time may use it. Addresses are those of the device.
type Driver interface {
	// Alloc returns the address of size bytes, a multiple of 256. The memory is not initialised.
	Alloc(size int) (address uint64, err error)
	// Pin makes copies of the program's memory faster, and those of Send and Fetch concurrent with other work. The
	// memory must stay in use until Close. Pin does nothing if the memory does not have whole pages of its own, from
	// its beginning to the end of its capacity, or if the driver refuses.
	Pin(memory []byte)
	// Upload and Download copy bytes to the device and from it, and Clear sets bytes to 0. Download waits for all work
	// before it.
	Upload(to uint64, from []byte) error
	Download(to []byte, from uint64) error
	Clear(address uint64, size int) error
	// Send starts an Upload. The bytes must not change before the end of a later Upload or Download, or of the Fetched
	// for a later Fetch.
	Send(to uint64, from []byte) error
	// Fetch starts a copy of bytes from the device, which does not delay the work after it. That work must not change
	// these bytes before the Fetched for this Fetch. The calls of Fetched wait for those of Fetch in turn.
	Fetch(to []byte, from uint64) error
	Fetched() error
	// Load compiles PTX, and returns the functions with the given names.
	Load(ptx string, names []string) ([]uintptr, error)
	// Launch starts a function on a grid of x by y blocks of 256 threads. An argument has the bits of its parameter.
	Launch(function uintptr, x, y int, args Args) error
	// Close frees all that the device has.
	Close() error
}
