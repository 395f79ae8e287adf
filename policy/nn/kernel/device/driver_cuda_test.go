//go:build cuda

package device

import (
	"os"
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

// TestLoad: the driver compiles all kernels.
func TestLoad(t *testing.T) {
	test.Must(New(newDriver(t)))(t)
}

// BenchmarkProduct multiplies matrices [2048,2048] and reports TFLOP/s, with the time of the launches.
func BenchmarkProduct(b *testing.B) {
	if os.Getenv("RLINF_CUDA") != "" {
		b.Skip("it measures a GPU")
	}
	const n, products = 2048, 20
	o := test.Must(New(newDriver(b)))(b)
	x, y, z := o.Vector(n*n), o.Vector(n*n), o.Vector(n*n)
	for b.Loop() {
		for range products {
			o.Product(z, x, y, nil, n, n, n, false)
		}
		o.SumSq(z[:1]) // waits
	}
	b.ReportMetric(2*n*n*n*products*float64(b.N)/b.Elapsed().Seconds()/1e12, "TFLOP/s")
}
