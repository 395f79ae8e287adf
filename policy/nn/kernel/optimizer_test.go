package kernel

import (
	"fmt"
	"math"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// Several steps agree with the formula in float64, for every length of the rest after whole vectors.
func TestAdamStep(t *testing.T) {
	const lr, beta1, beta2, eps, wd, scale = 1e-2, 0.9, 0.999, 1e-5, 0.1, 0.5
	eachLevel(t, func(t *testing.T, _ level) {
		for n := range 70 {
			p, m, v := newGuarded(n, n%5), newGuarded(n, n%7), newGuarded(n, n%11)
			random(p.x, 1)
			clear(m.x)
			clear(v.x)
			want := make([]struct{ p, m, v float64 }, n)
			for i := range want {
				want[i].p = float64(p.x[i])
			}
			for step := 1; step <= 5; step++ {
				g := randomN(n, uint64(step))
				c1, c2 := 1-math.Pow(beta1, float64(step)), 1-math.Pow(beta2, float64(step))
				AdamStep(p.x, g, m.x, v.x, lr, beta1, beta2, eps, wd, float32(c1), float32(c2), scale)
				for i := range want {
					w, d := &want[i], scale*float64(g[i])
					w.m = beta1*w.m + (1-beta1)*d
					w.v = beta2*w.v + (1-beta2)*d*d
					w.p -= lr*wd*w.p + lr*(w.m/c1)/(math.Sqrt(w.v/c2)+eps)
				}
			}
			for i, w := range want {
				if math.Abs(float64(p.x[i])-w.p) > 2e-6*(1+math.Abs(w.p)) {
					t.Fatalf("%d elements: p[%d] = %v, want %v", n, i, p.x[i], w.p)
				}
				if math.Abs(float64(m.x[i])-w.m) > 1e-6 || math.Abs(float64(v.x[i])-w.v) > 1e-4*w.v {
					t.Fatalf("%d elements: moments %d = %v, %v, want %v, %v", n, i, m.x[i], v.x[i], w.m, w.v)
				}
			}
			for _, s := range []guarded{p, m, v} {
				s.check(t, fmt.Sprintf("%d elements", n))
			}
		}
	})
}

// Every level rounds after every operation, so all levels give the same bits.
func TestAdamStepSameBits(t *testing.T) {
	eachLevel(t, func(t *testing.T, lv level) {
		const n = 1003
		run := func(lv level) (p, m, v []float32) {
			p, m, v = randomN(n, 1), randomN(n, 2), randomN(n, 3)
			for i := range v {
				v[i] *= v[i]
			}
			atLevel(lv, func() { AdamStep(p, randomN(n, 4), m, v, 3e-4, 0.9, 0.999, 1e-8, 0.01, 0.4, 0.01, 0.37) })
			return p, m, v
		}
		p, m, v := run(lv)
		wp, wm, wv := run(portable)
		sameBits(t, "p", p, wp)
		sameBits(t, "m", m, wm)
		sameBits(t, "v", v, wv)
	})
}

// A gap in the parameters, zero everywhere, stays zero.
func TestAdamStepLeavesZeros(t *testing.T) {
	p, g, m, v := make([]float32, 9), make([]float32, 9), make([]float32, 9), make([]float32, 9)
	AdamStep(p, g, m, v, 1e-3, 0.9, 0.999, 1e-8, 0.1, 0.1, 0.001, 1)
	for _, x := range [][]float32{p, m, v} {
		sameBits(t, "zeros", x, make([]float32, 9))
	}
}

func TestSumSq(t *testing.T) {
	eachLevel(t, func(t *testing.T, _ level) {
		for n := range 200 {
			x := newGuarded(n, n%13)
			random(x.x, 1)
			var want float64
			for _, v := range x.x {
				want += float64(v) * float64(v)
			}
			got, plain := SumSq(x.x), 0.0
			atLevel(portable, func() { plain = SumSq(x.x) })
			if math.Abs(got-want) > 1e-14*want {
				t.Fatalf("%d elements: %v, want %v", n, got, want)
			}
			if got != plain {
				t.Fatalf("%d elements: %v, portable %v: another order", n, got, plain)
			}
		}
	})
}

// The sum is not finite if any element is not finite. It is finite for the largest finite elements.
func TestSumSqNotFinite(t *testing.T) {
	eachLevel(t, func(t *testing.T, _ level) {
		for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
			for i := range 45 {
				x := randomN(45, 1)
				x[i] = float32(bad)
				if got := SumSq(x); !math.IsNaN(got) && !math.IsInf(got, 0) {
					t.Fatalf("%v at %d: sum %v", bad, i, got)
				}
			}
		}
		huge := make([]float32, 100)
		for i := range huge {
			huge[i] = math.MaxFloat32
		}
		if got := SumSq(huge); math.IsInf(got, 0) {
			t.Errorf("sum of finite squares is %v", got)
		}
	})
}

func TestOptimizerAllocatesNothing(t *testing.T) {
	p, g, m, v := randomN(1000, 1), randomN(1000, 2), randomN(1000, 3), make([]float32, 1000)
	test.NoAllocs(t, 5, func() {
		AdamStep(p, g, m, v, 1e-3, 0.9, 0.999, 1e-8, 0, 0.1, 0.001, float32(1/SumSq(g)))
	})
}

func TestOptimizerLengths(t *testing.T) {
	x := make([]float32, 4)
	mustPanic(t, "adam step g", func() { AdamStep(x, x[:3], x, x, 1, 0, 0, 1, 0, 1, 1, 1) })
	mustPanic(t, "adam step m", func() { AdamStep(x, x, x[:3], x, 1, 0, 0, 1, 0, 1, 1, 1) })
	mustPanic(t, "adam step v", func() { AdamStep(x, x, x, x[:3], 1, 0, 0, 1, 0, 1, 1, 1) })
}
