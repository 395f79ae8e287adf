//go:build cuda

package gpu

import (
	"fmt"

	"gorgonia.org/cu"
)

// Devices returns the CUDA devices visible to this process or, if there are none, the reason.
func Devices() ([]Device, string) {
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
	id, err := dev.UUID()
	d.UUID = id.String()
	return d, err
}
