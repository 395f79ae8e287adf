//go:build cuda

package device

import (
	"testing"

	"github.com/rlinf/rlinf/internal/gpu"
	"github.com/rlinf/rlinf/internal/test"
)

// newDriver returns a context on the first device, by the driver of this machine or by the fake driver
// (RLINF_CUDA=interpreter).
func newDriver(t testing.TB) Driver {
	if devices, why := gpu.Devices(); len(devices) == 0 {
		t.Skip(why + "; RLINF_CUDA=interpreter runs kernels without one")
	}
	c := test.Must(gpu.Open(0))(t)
	t.Cleanup(func() { test.OK(t, c.Close()) })
	return c
}
