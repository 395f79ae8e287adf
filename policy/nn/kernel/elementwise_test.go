package kernel

import (
	"fmt"
	"math"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// stride is the distance of the sampled float32. It is odd, so that every sign and exponent is combined with many
// mantissas.
const stride = 4099

// transcendental has the functions of one argument, each with its float64 reference and its largest error in ulps.
var transcendental = []struct {
	name string
	f    func(dst, x []float32)
	ref  func(float64) float64
	ulps float64
}{
	{"tanh", Tanh[float32], math.Tanh, 1.5},
	{"exp", Exp[float32], math.Exp, 1},
	{"log", Log[float32], math.Log, 1},
}

func TestAccuracyOverAllFloats(t *testing.T) {
	eachLevel(t, func(t *testing.T, _ level) {
		for _, fn := range transcendental {
			x, y := make([]float32, 0, 1<<12), make([]float32, 1<<12)
			worst, at, checked := 0.0, float32(0), 0
			flush := func() {
				fn.f(y[:len(x)], x)
				for i, v := range x {
					if d := ulps(y[i], fn.ref(float64(v))); d > worst || d != d {
						worst, at = d, v
					}
				}
				checked += len(x)
				x = x[:0]
			}
			for bits := uint64(0); bits < 1<<32; bits += stride {
				if x = append(x, math.Float32frombits(uint32(bits))); len(x) == cap(x) {
					flush()
				}
			}
			x = append(x, special...)
			flush()
			t.Logf("%s: %d values, at most %.3f ulp off, at %v", fn.name, checked, worst, at)
			if worst > fn.ulps || worst != worst {
				t.Errorf("%s(%v) is %v ulp off, want at most %v", fn.name, at, worst, fn.ulps)
			}
		}
	})
}

var special = []float32{
	0, float32(math.Copysign(0, -1)), 1, -1, float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1)),
	math.SmallestNonzeroFloat32, -math.SmallestNonzeroFloat32, math.MaxFloat32, -math.MaxFloat32, 0x1p-126, -0x1p-126,
	0x1.fffffep-127,
	88.72283, 88.72284, -87.33654, -87.33655, -103.27892, -103.97207, -103.97208, -104, 9.01, 9.02, 10, -10, 0.34657359,
	0.5, 0.625, 1e-10,
	0.99999994, 1.0000001, 0.70710677, 0.70710678, 0.7071068, 1.4142135, 2, -0.5, math.Pi,
}

// The sign of zero is kept, and -0 is not below 0.
func TestSpecialValues(t *testing.T) {
	nan, inf, zero := float32(math.NaN()), float32(math.Inf(1)), float32(math.Copysign(0, -1))
	eachLevel(t, func(t *testing.T, _ level) {
		for _, c := range []struct {
			name    string
			f       func(dst, x []float32)
			x, want []float32
		}{
			{"tanh", Tanh[float32], []float32{0, zero, inf, -inf, nan, 1e-40, -100},
				[]float32{0, zero, 1, -1, nan, 1e-40, -1}},
			{"exp", Exp[float32], []float32{0, zero, inf, -inf, nan, 89, -104}, []float32{1, 1, inf, 0, nan, inf, 0}},
			{"log", Log[float32], []float32{0, zero, inf, -inf, nan, 1, -1e-40},
				[]float32{-inf, -inf, inf, nan, nan, 0, nan}},
			{"relu", Relu[float32], []float32{0, zero, inf, -inf, nan, 2, -1e-40},
				[]float32{0, zero, inf, 0, nan, 2, 0}},
		} {
			got := make([]float32, len(c.x))
			c.f(got, c.x)
			sameBits(t, c.name, got, c.want)
		}
	})
}

// elementwise has all elementwise functions, as functions of dst, x and y.
var elementwise = []struct {
	name string
	f    func(dst, x, y []float32)
	want func(dst, x, y float32) float32 // nil if no formula gives the same bits
}{
	{"tanh", func(dst, x, _ []float32) { Tanh(dst, x) }, nil},
	{"exp", func(dst, x, _ []float32) { Exp(dst, x) }, nil},
	{"log", func(dst, x, _ []float32) { Log(dst, x) }, nil},
	{"relu", func(dst, x, _ []float32) { Relu(dst, x) },
		func(_, x, _ float32) float32 { return max(x, 0) }},
	{"tanh grad", TanhGrad[float32], func(_, dy, y float32) float32 { return dy * (1 - float32(y*y)) }},
	{"relu grad", ReluGrad[float32], func(_, dy, y float32) float32 {
		if y <= 0 {
			return 0
		}
		return dy
	}},
	{"axpy", func(dst, x, _ []float32) { Axpy(dst, 0.3, x) },
		func(dst, x, _ float32) float32 { return dst + float32(0.3*x) }},
	{"scale", func(dst, x, _ []float32) { Scale(dst, 0.3) },
		func(dst, _, _ float32) float32 { return dst * 0.3 }},
	{"exp less", func(dst, x, _ []float32) { ExpLess(dst, x, 0.3) }, nil},
	{"swiglu", SwiGLU, nil},
}

// An element's value depends only on its operands, not on its place, the length or the alignment. No other element is
// written.
func TestElementsAnywhere(t *testing.T) {
	eachLevel(t, func(t *testing.T, _ level) {
		for _, fn := range elementwise {
			for n := range 100 {
				dst, x, y := newGuarded(n, n%16), newGuarded(n, (n/2)%16), newGuarded(n, (n/5)%16)
				random(dst.x, 1)
				random(x.x, 2)
				random(y.x, 3)
				for i := 0; i < n; i += 3 {
					y.x[i] = 0 // the bend of relu
				}
				before := append([]float32(nil), dst.x...)
				fn.f(dst.x, x.x, y.x)
				what := fmt.Sprintf("%s of %d", fn.name, n)
				dst.check(t, what)
				for i := range n {
					alone := before[i : i+1]
					if fn.want != nil {
						want := fn.want(before[i], x.x[i], y.x[i])
						sameBits(t, what, dst.x[i:i+1], []float32{want})
					}
					fn.f(alone, x.x[i:i+1], y.x[i:i+1])
					sameBits(t, what+", each alone", dst.x[i:i+1], alone)
				}
			}
		}
	})
}

// The two vector levels give the same bits, over the whole range.
func TestVectorLevelsAgree(t *testing.T) {
	if best != avx512 {
		t.Skip("needs AVX-512 to compare AVX2 with")
	}
	x, a, b := make([]float32, 1<<16), make([]float32, 1<<16), make([]float32, 1<<16)
	for i := range x {
		x[i] = math.Float32frombits(uint32(i)*65521 + 7)
	}
	y := randomN(len(x), 1)
	for _, fn := range elementwise {
		copy(a, y)
		copy(b, y)
		atLevel(avx2, func() { fn.f(a, x, y) })
		fn.f(b, x, y)
		sameBits(t, fn.name, a, b)
	}
}

func TestElementwiseInPlace(t *testing.T) {
	eachLevel(t, func(t *testing.T, _ level) {
		for _, fn := range elementwise[:6] {
			dst, x, y := randomN(77, 1), randomN(77, 2), randomN(77, 3)
			fn.f(dst, x, y)
			fn.f(x, x, y)
			sameBits(t, fn.name+" over its first operand", x, dst)
		}
	})
}

func TestElementwiseLengths(t *testing.T) {
	x := make([]float32, 4)
	mustPanic(t, "tanh", func() { Tanh(x, x[:3]) })
	mustPanic(t, "tanh grad", func() { TanhGrad(x, x, x[:3]) })
	mustPanic(t, "relu", func() { Relu(x[:2], x) })
	mustPanic(t, "relu grad", func() { ReluGrad(x, x[:3], x) })
	mustPanic(t, "exp", func() { Exp(x[:0], x) })
	mustPanic(t, "log", func() { Log(x, nil) })
	mustPanic(t, "axpy", func() { Axpy(x, 2, x[:1]) })
}

func TestElementwiseAllocatesNothing(t *testing.T) {
	x, y, z := randomN(1000, 1), randomN(1000, 2), randomN(1000, 3)
	test.NoAllocs(t, 5, func() {
		Tanh(x, y)
		TanhGrad(z, y, x)
		Relu(x, y)
		ReluGrad(z, y, x)
		Exp(x, y)
		Log(x, x)
		Axpy(x, 2, y)
		Scale(x, 0.5)
		LogSoftmax(x, y, 100, 10)
		Normalize(x, y, z[:10], z[10:20], 100, 10, 5)
		Transpose(z, y, 100, 10)
	})
}
