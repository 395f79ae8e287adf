package job

import (
	"testing"

	"github.com/rlinf/rlinf/internal/gpu"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// TestDevicesOfANode: a node needs devices for its own workers, and an error names their key.
func TestDevicesOfANode(t *testing.T) {
	t.Parallel()
	if devices, _ := gpu.Devices(); len(devices) > 0 {
		t.Skip("this machine has a GPU")
	}
	nodes := []int{0, 0, 1}
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, "cluster.num_nodes=2", "~cluster.component_placement",
		"+cluster.component_placement={actor: 0-1, env: 0, rollout: 0, inference: 2}")
	cfg.Actor.Device, cfg.Inference.Device = []string{config.DeviceCPU}, []string{config.DeviceCUDA}
	j := &Job{Config: cfg, Placement: test.Must(cfg.Place(nodes))(t)}
	needs := func(r int) int64 { return 5 * j.OnDevices("inference", r) }
	test.OK(t, j.CheckDevices(nodes, 0, needs))
	test.Fails(t, j.CheckDevices(nodes, 1, needs), "inference.device: cuda (the default): expected cpu: ")
}

// TestSlowDevice: a core is faster with two hidden layers of 64 and 256 samples, and with a language model of a few
// thousand weights. It is slower with layers of 1024, and with Qwen2-0.5B.
func TestSlowDevice(t *testing.T) {
	t.Parallel()
	test.EqualSlices(t, SlowDevice("actor", 4*64+64*64+64*2, 256, "samples", 70), []string{
		"actor.device: cuda: with 4480 " +
			"parameters and micro-batches of 256 samples, a core is probably faster than a GPU"})
	test.Equal(t, len(SlowDevice("actor", 4*1024+1024*1024+1024*2, 8192, "samples", 70)), 0)
	test.Equal(t, len(SlowDevice("actor", 4000, 32, "tokens", 40)), 1)
	test.Equal(t, len(SlowDevice("actor", 494032768, 512, "tokens", 24*40)), 0)
}
