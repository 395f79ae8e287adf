//go:build blas

package blas

import (
	"fmt"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// BenchmarkProducts compares package kernel with OpenBLAS and gonum on x·w and, for shapes marked ta, xᵀ·dy.
func BenchmarkProducts(b *testing.B) {
	for _, s := range []struct {
		m, n, k int
		ta      bool
	}{
		{m: 128, n: 64, k: 64}, {m: 128, n: 64, k: 4}, {m: 128, n: 2, k: 64}, {m: 128, n: 1, k: 64},
		{m: 256, n: 256, k: 256}, {m: 4, n: 64, k: 64},
		{m: 512, n: 512, k: 512}, {m: 1024, n: 1024, k: 1024}, {m: 128, n: 1024, k: 1024},
		{m: 64, n: 64, k: 128, ta: true}, {m: 64, n: 2, k: 128, ta: true}, {m: 256, n: 256, k: 256, ta: true},
		{m: 1024, n: 1024, k: 128, ta: true},
	} {
		x, w, y := make([]float32, s.m*s.k), make([]float32, s.k*s.n), make([]float32, s.m*s.n)
		for i := range x {
			x[i] = float32(i%7) - 3
		}
		for i := range w {
			w[i] = float32(i%5) - 2
		}
		name := fmt.Sprintf("%dx%dx%d", s.m, s.k, s.n)
		ours, openblas, trans, lda := kernel.Gemm[float32], Gemm, blas.NoTrans, s.k
		if s.ta {
			name += "-ta"
			ours, openblas, trans, lda = kernel.GemmTA[float32], GemmTA, blas.Trans, s.m
		}
		run := func(who string, f func()) {
			b.Run(name+"/"+who, func(b *testing.B) {
				for b.Loop() {
					f()
				}
				b.ReportMetric(2*float64(s.m*s.n*s.k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
			})
		}
		run("kernel", func() { ours(y, x, w, s.m, s.n, s.k, false) })
		run("openblas", func() { openblas(y, x, w, s.m, s.n, s.k, false) })
		run("gonum", func() {
			gonum.Implementation{}.Sgemm(trans, blas.NoTrans, s.m, s.n, s.k, 1, x, lda, w, s.n, 0, y, s.n)
		})
	}
}
