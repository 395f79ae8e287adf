package job

import (
	"fmt"

	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/gpu"
)

// OnDevices returns the number of actors on rank r that compute on a device.
func (j *Job) OnDevices(r int) (n int64) {
	for _, m := range j.MembersOn("actor", r) {
		if j.Config.Actor.UsesGPU(m) {
			n++
		}
	}
	return n
}

// CheckDevices returns an error if the actors on a node need devices that it lacks, or more memory than its devices
// have. needs returns the bytes that the actors of rank r need. Rank r is on node nodes[r].
func (j *Job) CheckDevices(nodes []int, node int, needs func(r int) int64) error {
	const key = "actor.device"
	devices, why := gpu.Devices()
	need, local := make([]int64, max(len(devices), 1)), 0
	for r, n := range nodes {
		if n == node {
			need[local%len(need)] += needs(r)
			local++
		}
	}
	for i, n := range need {
		switch {
		case n == 0:
		case len(devices) == 0:
			return j.Config.Mistake(key, j.Config.Actor.Device, "cpu: "+why)
		case n > devices[i].Memory:
			return fmt.Errorf(key+": cuda: actors need %s on GPU %d of node %d (%s), which has %s: expected "+
				"smaller micro-batches, a smaller policy or more nodes", figures.MiB(n), i, node, devices[i].Name,
				figures.MiB(devices[i].Memory))
		}
	}
	return nil
}

// SlowDevice returns a note if a core probably computes the gradients of a micro-batch before a device has started the
// kernels for them, which takes about 3 µs each. A core does about 10¹¹ operations in a second. size is that of the
// micro-batch, in the given unit.
func SlowDevice(parameters, size int, unit string, launches int) []string {
	if 6*float64(parameters)*float64(size) >= 3e-6*float64(launches)*1e11 {
		return nil
	}
	return []string{fmt.Sprintf("actor.device: cuda: with %d parameters and micro-batches of %d %s, a core is "+
		"probably faster than a GPU", parameters, size, unit)}
}

// DeviceColumn is the column of the memory on the GPUs of ranks.
func DeviceColumn() FootprintColumn {
	return FootprintColumn{Name: "GPU", Bytes: func(f Footprint) int64 { return f.Device }}
}
