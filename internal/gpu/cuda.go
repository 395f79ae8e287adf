//go:build cuda

package gpu

// #include "driver.h"
import "C"

import (
	"fmt"
	"os"
	"runtime/cgo"
	"sync"

	"gorgonia.org/cu"
)

// Devices returns the CUDA devices visible to this process or, if there are none, the reason.
func Devices() ([]Device, string) {
	if why := open(); why != "" {
		return nil, why
	}
	n, err := cu.NumDevices()
	if err != nil {
		return nil, fmt.Sprintf("no GPU: %v", err)
	}
	var devices []Device
	for i := range n {
		d, err := describe(i)
		if err != nil {
			return devices, fmt.Sprintf("GPU %d: %v", i, err)
		}
		devices = append(devices, d)
	}
	if n == 0 {
		return nil, "no GPU on this machine, or none in CUDA_VISIBLE_DEVICES"
	}
	return devices, ""
}

// open opens the driver, once in a process. It returns why there is none, or "".
var open = sync.OnceValue(func() string {
	var handle cgo.Handle
	switch v := os.Getenv("RLINF_CUDA"); v {
	case "":
	case "interpreter":
		handle = cgo.NewHandle(new(interpreter))
	default:
		return fmt.Sprintf("no GPU: RLINF_CUDA=%s: expected interpreter, or no value for the driver", v)
	}
	var why [256]C.char
	if result := C.rl_open(C.uintptr_t(handle), &why[0], C.size_t(len(why))); result != C.CUDA_SUCCESS {
		if text := C.GoString(&why[0]); text != "" {
			return "no GPU: no CUDA driver: " + text
		}
		return fmt.Sprintf("no GPU: the CUDA driver does not start: error %d", result)
	}
	return ""
})

func describe(i int) (d Device, err error) {
	dev, err := cu.GetDevice(i)
	if err != nil {
		return d, err
	}
	if d.Name, err = dev.Name(); err != nil {
		return d, err
	}
	if d.Memory, err = dev.TotalMem(); err != nil {
		return d, err
	}
	version := cu.Version()
	d.Driver = fmt.Sprintf("CUDA %d.%d", version/1000, version%1000/10)
	id, err := dev.UUID()
	d.UUID = id.String()
	return d, err
}
