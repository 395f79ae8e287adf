package kernel

import (
	"fmt"
	"testing"
)

// benchShapes are the products of PPO's 64-64 networks with 128 rows (4 in a rollout), and of SAC's 256-256 ones.
var benchShapes = []struct{ m, n, k int }{
	{128, 64, 64}, {128, 64, 4}, {128, 2, 64}, {128, 1, 64}, {256, 256, 256}, {4, 64, 64}, {4, 64, 4}, {4, 2, 64},
	{128, 64, 2},
}

func benchLevels(b *testing.B, f func(b *testing.B)) {
	for lv := portable; lv <= best; lv++ {
		b.Run([...]string{"portable", "avx2", "avx512"}[lv], func(b *testing.B) { atLevel(lv, func() { f(b) }) })
	}
}

func reportFlops(b *testing.B, m, n, k int) {
	b.ReportMetric(2*float64(m*n*k)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
}

func BenchmarkGemm(b *testing.B) {
	for _, s := range benchShapes {
		x, w, y, bias := randomN(s.m*s.k, 1), randomN(s.k*s.n, 2), randomN(s.m*s.n, 3), randomN(s.n, 4)
		b.Run(fmt.Sprintf("%dx%dx%d", s.m, s.k, s.n), func(b *testing.B) {
			benchLevels(b, func(b *testing.B) {
				for b.Loop() {
					product(y, w, &matrix[float32]{x, s.k, 1}, &start[float32]{bias: bias}, s.m, s.n, s.k)
				}
				reportFlops(b, s.m, s.n, s.k)
			})
		})
	}
}

func BenchmarkGemmTA(b *testing.B) {
	for _, s := range []struct{ m, n, k int }{{64, 64, 128}, {4, 64, 128}, {64, 2, 128}, {64, 1, 128},
		{256, 256, 256}} {
		x, dy, dw := randomN(s.m*s.k, 1), randomN(s.k*s.n, 2), randomN(s.m*s.n, 3)
		b.Run(fmt.Sprintf("%dx%dx%d", s.m, s.k, s.n), func(b *testing.B) {
			benchLevels(b, func(b *testing.B) {
				for b.Loop() {
					product(dw, dy, &matrix[float32]{x, 1, s.m}, &start[float32]{}, s.m, s.n, s.k)
				}
				reportFlops(b, s.m, s.n, s.k)
			})
		})
	}
}

func perElement(b *testing.B, n int) {
	b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N*n), "ns/element")
}

func BenchmarkElementwise(b *testing.B) {
	const n = 128 * 64
	dst, x, y := randomN(n, 1), randomN(n, 2), randomN(n, 3)
	for _, fn := range elementwise {
		b.Run(fn.name, func(b *testing.B) {
			benchLevels(b, func(b *testing.B) {
				for b.Loop() {
					fn.f(dst, x, y)
				}
				perElement(b, n)
			})
		})
	}
}

func BenchmarkAdamStep(b *testing.B) {
	const n = 9000
	p, g, m, v := randomN(n, 1), randomN(n, 2), randomN(n, 3), make([]float32, n)
	benchLevels(b, func(b *testing.B) {
		for b.Loop() {
			AdamStep(p, g, m, v, 1e-9, 0.9, 0.999, 1e-5, 0, 1, 1, 1)
		}
		perElement(b, n)
	})
}

func BenchmarkSumSq(b *testing.B) {
	const n = 9000
	x := randomN(n, 1)
	benchLevels(b, func(b *testing.B) {
		for b.Loop() {
			SumSq(x)
		}
		perElement(b, n)
	})
}

func BenchmarkTranspose(b *testing.B) {
	for _, n := range []int{64, 1000, 4096} {
		a, dst := randomN(n*n, 1), make([]float32, n*n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			benchLevels(b, func(b *testing.B) {
				for b.Loop() {
					Transpose(dst, a, n, n)
				}
				perElement(b, n*n)
			})
		})
	}
}

func BenchmarkColSum(b *testing.B) {
	const m, n = 128, 64
	a, dst := randomN(m*n, 1), make([]float32, n)
	benchLevels(b, func(b *testing.B) {
		for b.Loop() {
			ColSum(dst, a, m, n, false)
		}
		perElement(b, m*n)
	})
}

func BenchmarkLogSoftmax(b *testing.B) {
	const m, n = 128, 2
	x, dst := randomN(m*n, 1), make([]float32, m*n)
	benchLevels(b, func(b *testing.B) {
		for b.Loop() {
			LogSoftmax(dst, x, m, n)
		}
		perElement(b, m)
	})
}
