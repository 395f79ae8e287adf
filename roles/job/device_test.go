package job

import (
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestSlowDevice: a core is faster with two hidden layers of 64 and 256 samples, and with a language model of a few
// thousand weights. It is slower with layers of 1024, and with Qwen2-0.5B.
func TestSlowDevice(t *testing.T) {
	t.Parallel()
	test.EqualSlices(t, SlowDevice(4*64+64*64+64*2, 256, "samples", 70), []string{"actor.device: cuda: with 4480 " +
		"parameters and micro-batches of 256 samples, a core is probably faster than a GPU"})
	test.Equal(t, len(SlowDevice(4*1024+1024*1024+1024*2, 8192, "samples", 70)), 0)
	test.Equal(t, len(SlowDevice(4000, 32, "tokens", 40)), 1)
	test.Equal(t, len(SlowDevice(494032768, 512, "tokens", 24*40)), 0)
}
