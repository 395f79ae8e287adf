package kernel

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

func TestColSum(t *testing.T) {
	eachLevel(t, func(t *testing.T, _ level) {
		for _, s := range []struct{ m, n int }{{0, 3}, {1, 1}, {128, 1}, {128, 2}, {5, 6}, {128, 64}, {37, 100},
			{300, 256}} {
			for _, acc := range []bool{false, true} {
				a, dst := randomN(s.m*s.n, 1), newGuarded(s.n, s.m%7)
				random(dst.x, 2)
				want := make([]float32, s.n)
				if acc {
					copy(want, dst.x)
				}
				for i := range s.m {
					for j := range s.n {
						want[j] += a[i*s.n+j]
					}
				}
				ColSum(dst.x, a, s.m, s.n, acc)
				what := fmt.Sprintf("col sum %d×%d, acc %v", s.m, s.n, acc)
				sameBits(t, what, dst.x, want)
				dst.check(t, what)
			}
		}
	})
}

func TestTranspose(t *testing.T) {
	eachLevel(t, func(t *testing.T, _ level) {
		for m := range 26 {
			for n := range 26 {
				checkTranspose(t, m, n)
			}
		}
		checkTranspose(t, 64, 64)
		checkTranspose(t, 100, 300)
	})
}

func checkTranspose(t *testing.T, m, n int) {
	t.Helper()
	a, dst := randomN(m*n, 1), newGuarded(m*n, m%9)
	Transpose(dst.x, a, m, n)
	what := fmt.Sprintf("transpose %d×%d", m, n)
	for i := range m {
		for j := range n {
			if dst.x[j*m+i] != a[i*n+j] {
				t.Fatalf("%s: [%d,%d] = %v, want %v", what, j, i, dst.x[j*m+i], a[i*n+j])
			}
		}
	}
	dst.check(t, what)
}

func TestNormalize(t *testing.T) {
	nan := float32(math.NaN())
	x := []float32{1, 10, 3, nan, -50, 2}
	Normalize(x, x, []float32{1, 2}, []float32{2, 0.5}, 3, 2, 5)
	sameBits(t, "normalize", x, []float32{0, 4, 4, nan, -5, 0})
}

func TestLogSoftmax(t *testing.T) {
	inf := float32(math.Inf(1))
	rows := [][]float32{
		{0}, {1, 2}, {-3, 0.5, 7, 7}, {1000, 1001, 999}, {-1000, -1001}, {0, -inf},
		{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18},
		randomN(63, 1), randomN(129, 2), randomN(300, 3),
	}
	eachLevel(t, func(t *testing.T, _ level) {
		for _, row := range rows {
			n, top, sum := len(row), slices.Max(row), 0.0
			for _, v := range row {
				sum += math.Exp(float64(v) - float64(top))
			}
			for m := 0; m*n < 1000; m += 1 + m/8 {
				g := newGuarded(m*n, m%5)
				for i := range m {
					copy(g.x[i*n:], row)
				}
				LogSoftmax(g.x, g.x, m, n)
				what := fmt.Sprintf("log softmax of %d rows of %d", m, n)
				g.check(t, what)
				for i, got := range g.x {
					want := float64(row[i%n]) - float64(top) - math.Log(sum)
					if d := math.Abs(float64(got) - want); d > 1e-6*(1+math.Abs(want)) {
						t.Fatalf("%s: [%d] = %v, want %v", what, i, got, want)
					}
					sameBits(t, what, g.x[i:i+1], g.x[i%n:i%n+1])
				}
			}
		}
		x := []float32{1, float32(math.NaN()), 2}
		LogSoftmax(x, x, 1, 3)
		for j, v := range x {
			if v == v {
				t.Errorf("log softmax of a row with NaN: [%d] = %v", j, v)
			}
		}
	})
}

func TestRowsLengths(t *testing.T) {
	x := make([]float32, 6)
	mustPanic(t, "col sum", func() { ColSum(x[:2], x, 2, 3, false) })
	mustPanic(t, "transpose", func() { Transpose(x[:5], x, 2, 3) })
	mustPanic(t, "normalize", func() { Normalize(x, x, x[:3], x[:2], 2, 3, 1) })
	mustPanic(t, "log softmax", func() { LogSoftmax(x, x[:4], 2, 3) })
}
