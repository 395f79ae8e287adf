package job

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/gpu"
	"github.com/rlinf/rlinf/roles/config"
)

// OnDevices returns the number of members of a component on rank r that compute on a device.
func (j *Job) OnDevices(component string, r int) (n int64) {
	for _, m := range j.MembersOn(component, r) {
		if j.Config.UsesGPU(component, m) {
			n++
		}
	}
	return n
}

// unit returns what a member of a component is called.
func unit(component string) string {
	if component == "actor" {
		return component
	}
	return component + " worker"
}

// CheckDevices returns an error if the workers on a node need devices that it lacks, or more memory than its devices
// have. needs returns the bytes that the workers of rank r need. Rank r is on node nodes[r].
func (j *Job) CheckDevices(nodes []int, node int, needs func(r int) int64) error {
	var with, keys, users []string
	for _, of := range config.DeviceComponents {
		uses := func(r int) bool { return nodes[r] == node && j.OnDevices(of, r) > 0 }
		if slices.ContainsFunc(j.Placement.Ranks(of), uses) {
			with, keys, users = append(with, of), append(keys, of+".device"), append(users, unit(of)+"s")
		}
	}
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
			return j.Config.Mistake(keys[0], j.Config.Device(with[0]), "cpu: "+why)
		case n > devices[i].Memory:
			return fmt.Errorf("%s: cuda: %s need %s on GPU %d of node %d (%s), which has %s: expected smaller "+
				"micro-batches, a smaller policy or more nodes", strings.Join(keys, ", "), strings.Join(users, " and "),
				figures.MiB(n), i, node, devices[i].Name, figures.MiB(devices[i].Memory))
		}
	}
	return nil
}

// SlowDevice returns a note if a core probably computes the gradients of a micro-batch before a device has started the
// kernels for them, which takes about 3 µs each. A core does about 10¹¹ operations in a second. size is that of the
// micro-batch, in the given unit.
func SlowDevice(component string, parameters, size int, unit string, launches int) []string {
	if 6*float64(parameters)*float64(size) >= 3e-6*float64(launches)*1e11 {
		return nil
	}
	return []string{fmt.Sprintf("%s.device: cuda: with %d parameters and micro-batches of %d %s, a core is "+
		"probably faster than a GPU", component, parameters, size, unit)}
}

// DeviceColumn is the column of the memory on the GPUs of ranks.
func DeviceColumn() FootprintColumn {
	return FootprintColumn{Name: "GPU", Bytes: func(f Footprint) int64 { return f.Device }}
}
