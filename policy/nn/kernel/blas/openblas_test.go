//go:build blas

package blas

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// OpenBLAS computes what package kernel does, within rounding.
func TestLikeKernel(t *testing.T) {
	if Core() == "" {
		t.Error("no core type")
	}
	for _, s := range []struct{ m, n, k int }{{0, 2, 3}, {2, 3, 0}, {1, 1, 1}, {5, 7, 9}, {128, 64, 64}, {64, 2, 128}} {
		a, b, bias := fill(s.m*s.k, 1), fill(s.k*s.n, 2), fill(s.n, 3)
		for _, f := range []struct {
			name       string
			ours, open func(c []float32)
		}{
			{"gemm", func(c []float32) { kernel.Gemm(c, a, b, s.m, s.n, s.k, false) },
				func(c []float32) { Gemm(c, a, b, s.m, s.n, s.k, false) }},
			{"gemm acc", func(c []float32) { kernel.Gemm(c, a, b, s.m, s.n, s.k, true) },
				func(c []float32) { Gemm(c, a, b, s.m, s.n, s.k, true) }},
			{"gemm bias", func(c []float32) { kernel.GemmBias(c, a, b, bias, s.m, s.n, s.k) },
				func(c []float32) { GemmBias(c, a, b, bias, s.m, s.n, s.k) }},
			{"gemm ta", func(c []float32) { kernel.GemmTA(c, a, b, s.m, s.n, s.k, false) },
				func(c []float32) { GemmTA(c, a, b, s.m, s.n, s.k, false) }},
			{"gemm ta acc", func(c []float32) { kernel.GemmTA(c, a, b, s.m, s.n, s.k, true) },
				func(c []float32) { GemmTA(c, a, b, s.m, s.n, s.k, true) }},
		} {
			got, want := fill(s.m*s.n, 4), fill(s.m*s.n, 4)
			f.open(got)
			f.ours(want)
			for i := range want {
				if math.Abs(float64(got[i]-want[i])) > 1e-4 {
					t.Fatalf("%s %d×%d×%d: C[%d] = %v, kernel has %v", f.name, s.m, s.n, s.k, i, got[i], want[i])
				}
			}
		}
	}
}

func fill(n, seed int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.Sin(float64(i*seed + seed)))
	}
	return x
}
