package device

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/cpu"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// A machine has Ops on an interpreter, and random numbers.
type machine struct {
	t      testing.TB
	device *Ops
	host   nn.Ops[float32] // package kernel
	random *rand.Rand
}

// newMachine returns a machine with the given driver, or with that of the build if it is nil.
func newMachine(t testing.TB, d Driver) *machine {
	if d == nil {
		d = newDriver(t)
	}
	if !cpu.X86.HasAVX2 || !cpu.X86.HasFMA {
		t.Skip("kernels have the bits of a processor with AVX2 and FMA, which this processor lacks")
	}
	return &machine{t, test.Must(New(d))(t), nn.NewCPU[float32](nil), rand.New(rand.NewPCG(1, 2))}
}

// special are the numbers that arithmetic may treat in another way.
var special = []float32{0, float32(math.Copysign(0, -1)), 1, -1, math.MaxFloat32, -math.MaxFloat32, 0x1p-149, -0x1p-149,
	0x1p-127, 0x1p-126, -0x1.fffffcp-127, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 88.72, -88,
	-103.9, 0x1p-12, 0.5493, 0.5494, -0.5493, 9, -9.02, 1e-30, 1e30}

// numbers returns n numbers of about 1; with a share of special numbers and of subnormal numbers.
func (m *machine) numbers(n int, share float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		switch u := m.random.Float64(); {
		case u < share/2:
			x[i] = special[m.random.IntN(len(special))]
		case u < share:
			x[i] = math.Float32frombits(m.random.Uint32() & 0x807fffff)
		default:
			x[i] = float32(m.random.NormFloat64())
		}
	}
	return x
}

// on returns a copy of x on the device. It is memory of its own, so that the interpreter reports each access outside.
func (m *machine) on(x []float32) []float32 {
	if x == nil {
		return nil
	}
	d := append([]float32(nil), x...)
	test.OK(m.t, m.device.Share(tensor.BytesOf(d)))
	m.device.Upload(tensor.BytesOf(d))
	return d
}

// same checks that the device has the bits of want in got. NaN is NaN.
func (m *machine) same(got, want []float32, about string, args ...any) {
	m.t.Helper()
	m.device.Download(tensor.BytesOf(got))
	for i, w := range want {
		if g := got[i]; math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
			m.t.Fatalf("%s: element %d of %d is %x, want %x", fmt.Sprintf(about, args...), i, len(want), g, w)
		}
	}
}

// shapes are m, n, k: corners of the tiles, and shapes of policies.
var shapes = [][3]int{
	{1, 1, 1}, {2, 3, 0}, {1, 1, 17}, {3, 2, 5}, {4, 4, 31}, {4, 4, 32}, {5, 3, 47}, {17, 1, 64}, {33, 2, 300},
	{7, 4, 513}, {5, 7, 9}, {16, 16, 8}, {13, 15, 24}, {31, 33, 7}, {32, 32, 16}, {65, 20, 33}, {129, 17, 12},
	{256, 6, 64}, {64, 64, 64}, {512, 5, 3}, {1, 256, 20}, {140, 150, 30}, {8, 41, 128}, {9, 23, 145}, {3, 9, 271},
}

// Products have the bits of package kernel, with each kernel, in all shapes, with and without initial values.
func TestProducts(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0, 0.02} {
		m := newMachine(t, nil)
		for _, s := range shapes {
			rows, n, k := s[0], s[1], s[2]
			a, b, c := m.numbers(rows*k, share), m.numbers(k*n, share), m.numbers(rows*n, share)
			bias := m.numbers(n, share)
			da, db, dbias := m.on(a), m.on(b), m.on(bias)
			for _, kind := range []string{"plain", "bias", "acc"} {
				with, dwith, acc := bias, dbias, kind == "acc"
				if kind != "bias" {
					with, dwith = nil, nil
				}
				for _, of := range kernelsOf(n, k) {
					want, got := append([]float32(nil), c...), m.on(c)
					if !of.transposed {
						m.host.Product(want, a, b, with, rows, n, k, acc)
					} else if kind != "bias" {
						m.host.Gradient(want, a, b, rows, n, k, acc)
					} else {
						continue
					}
					m.device.product("product", of.kernel, of.rows, of.columns, got, da, db, dwith, rows, n, k, acc)
					m.same(got, want, "kernel %d, %v %s", of.kernel, s, kind)
				}
			}
		}
	}
}

// A productKernel is a kernel, and the sizes of its tiles.
type productKernel struct {
	kernel        kernel
	rows, columns int
	transposed    bool
}

// kernelsOf returns the kernels that give the bits of a product with n columns and k steps.
func kernelsOf(n, k int) []productKernel {
	all := []productKernel{{gradientLarge, largeTile, largeTile, true}, {gradientSmall, smallTile, smallTile, true},
		{gradientNarrow, largeTile, narrowColumns, true}, {gradientDeep, deepTile, deepTile, true}}
	if n <= fewColumns && k >= fewMinK {
		return append(all, productKernel{productFew, fewRows, n, false})
	}
	return append(all, productKernel{productLarge, largeTile, largeTile, false},
		productKernel{productSmall, smallTile, smallTile, false},
		productKernel{productNarrow, largeTile, narrowColumns, false},
		productKernel{productDeep, deepTile, deepTile, false})
}

// A watched driver notes the last launch.
type watched struct {
	Driver
	f    Function
	x, y int
}

func (d *watched) Launch(f Function, x, y int, args Args) error {
	d.f, d.x, d.y = f, x, y
	return d.Driver.Launch(f, x, y, args)
}

// Each shape has a kernel that fits it, and the kernel has the right tiles.
func TestChoice(t *testing.T) {
	t.Parallel()
	d := &watched{Driver: newDriver(t)}
	m := newMachine(t, d)
	for _, s := range []struct {
		m, n, k           int
		product, gradient kernel
		x, y              int // blocks of the gradient
	}{
		{70, 3, 40, productFew, gradientNarrow, 1, 1}, {70, 3, 20, productNarrow, gradientNarrow, 1, 1},
		{200, 30, 5, productSmall, gradientSmall, 1, 7}, {1030, 1030, 3, productLarge, gradientLarge, 9, 9},
		{7, 60, 20, productDeep, gradientDeep, 8, 1}, {20, 18, 513, productDeep, gradientDeep, 3, 3},
		{20, 18, 511, productSmall, gradientSmall, 1, 1},
	} {
		rows, n, k := s.m, s.n, s.k
		chose := func(kernel kernel) {
			if d.f != m.device.functions[kernel] {
				t.Errorf("%+v: not kernel %d", s, kernel)
			}
		}
		a, b, c := m.numbers(rows*k, 0), m.numbers(k*n, 0), make([]float32, rows*n)
		da, db, got := m.on(a), m.on(b), m.on(c)
		m.host.Product(c, a, b, nil, rows, n, k, false)
		m.device.Product(got, da, db, nil, rows, n, k, false)
		chose(s.product)
		m.same(got, c, "product %v", s)
		m.host.Gradient(c, a, b, rows, n, k, false)
		m.device.Gradient(got, da, db, rows, n, k, false)
		chose(s.gradient)
		test.Equal(t, [2]int{d.x, d.y}, [2]int{s.x, s.y}, "blocks of %+v", s)
		m.same(got, c, "gradient %v", s)
	}
}

// Functions of elements and of rows have the bits of package kernel, for 1 to 512 rows.
func TestRows(t *testing.T) {
	t.Parallel()
	m := newMachine(t, nil)
	copied := func(x []float32) []float32 { return append([]float32(nil), x...) }
	for _, s := range [][2]int{{1, 1}, {1, 37}, {3, 5}, {31, 33}, {64, 64}, {129, 7}, {512, 3}, {2, 300}, {300, 40}} {
		rows, n := s[0], s[1]
		for _, share := range []float64{0, 0.3} {
			x, y, z := m.numbers(rows*n, share), m.numbers(rows*n, share), m.numbers(rows*n, share)
			v, w := m.numbers(n, share), m.numbers(n, share)
			dx, dy, dv, dw := m.on(x), m.on(y), m.on(v), m.on(w)
			// each compares what two calls make of the same z, or of the row v.
			each := func(name string, z []float32, host, device func(z []float32)) {
				want, got := copied(z), m.on(z)
				host(want)
				device(got)
				m.same(got, want, "%s %v, share %v", name, s, share)
			}
			h, d := m.host, m.device
			for _, f := range []nn.Activation{nn.Tanh, nn.ReLU} {
				each(f.String(), z, func(z []float32) { h.Activate(f, z, x) },
					func(z []float32) { d.Activate(f, z, dx) })
				each(f.String()+" gradient", z, func(z []float32) { h.ActivateGrad(f, z, z, y) },
					func(z []float32) { d.ActivateGrad(f, z, z, dy) })
			}
			each("exp", z, func(z []float32) { h.Exp(z, x) }, func(z []float32) { d.Exp(z, dx) })
			each("log", z, func(z []float32) { h.Log(z, x) }, func(z []float32) { d.Log(z, dx) })
			each("axpy", z, func(z []float32) { h.Axpy(z, 0.3, x) }, func(z []float32) { d.Axpy(z, 0.3, dx) })
			each("scale", z, func(z []float32) { h.Scale(z, -1.7) }, func(z []float32) { d.Scale(z, -1.7) })
			each("log softmax", z, func(z []float32) { h.LogSoftmax(z, z, rows, n) },
				func(z []float32) { d.LogSoftmax(z, z, rows, n) })
			each("normalize", z, func(z []float32) { h.Normalize(z, x, v, w, rows, n, 1.5) },
				func(z []float32) { d.Normalize(z, dx, dv, dw, rows, n, 1.5) })
			for _, acc := range []bool{false, true} {
				each("column sum", v, func(v []float32) { h.ColSum(v, x, rows, n, acc) },
					func(v []float32) { d.ColSum(v, dx, rows, n, acc) })
			}
			each("transpose", z, func(z []float32) { h.Transpose(z, x, rows, n, 1) },
				func(z []float32) { d.Transpose(z, dx, rows, n, 1) })
			each("clear", z, func(z []float32) { clear(z) }, func(z []float32) { d.Clear(z) })
			if want, got := h.SumSq(x), d.SumSq(dx); math.Float64bits(want) != math.Float64bits(got) && (want == want ||
				got == got) {
				t.Errorf("sum of squares %v: %x, want %x", s, got, want)
			}
		}
	}
	// Three matrices side by side.
	x, want := m.numbers(3*20*37, 0), make([]float32, 3*20*37)
	m.host.Transpose(want, x, 20, 37, 3)
	got := m.on(want)
	m.device.Transpose(got, m.on(x), 20, 37, 3)
	m.same(got, want, "three transposes")
}

// Columns are copied and added with any steps; rows that overlap are added in order.
func TestColumns(t *testing.T) {
	t.Parallel()
	m := newMachine(t, nil)
	for _, c := range []struct{ to, from, width, n int }{{5, 7, 3, 11}, {40, 33, 33, 9}, {0, 4, 4, 6}, {2, 5, 5, 8},
		{1, 1, 1, 300}, {3, 0, 3, 5}} {
		size := func(step int) int { return (c.n-1)*step + c.width + 2 }
		x, y := m.numbers(size(c.from), 0.1), m.numbers(size(c.to), 0.1)
		if c.to >= c.width {
			want, got := append([]float32(nil), y...), m.on(y)
			m.host.CopyColumns(want, c.to, x, c.from, c.width, c.n)
			m.device.CopyColumns(got, c.to, m.on(x), c.from, c.width, c.n)
			m.same(got, want, "copy %v", c)
		}
		got := m.on(y)
		m.host.AddColumns(y, c.to, x, c.from, c.width, c.n)
		m.device.AddColumns(got, c.to, m.on(x), c.from, c.width, c.n)
		m.same(got, y, "add %v", c)
	}
}

// Three steps of Adam have the bits of package kernel.
func TestAdam(t *testing.T) {
	t.Parallel()
	for _, share := range []float64{0, 0.1} {
		m := newMachine(t, nil)
		const n = 1001
		p, g, mean, square := m.numbers(n, share), m.numbers(n, share), make([]float32, n), make([]float32, n)
		dp, dg, dmean, dsquare := m.on(p), m.on(g), m.on(mean), m.on(square)
		for step := range 3 {
			c1, c2 := float32(1-math.Pow(0.9, float64(step+1))), float32(1-math.Pow(0.999, float64(step+1)))
			m.host.AdamStep(p, g, mean, square, 3e-4, 0.9, 0.999, 1e-5, 0.01, c1, c2, 0.7)
			m.device.AdamStep(dp, dg, dmean, dsquare, 3e-4, 0.9, 0.999, 1e-5, 0.01, c1, c2, 0.7)
		}
		m.same(dp, p, "parameters")
		m.same(dmean, mean, "first moments")
		m.same(dsquare, square, "second moments")
	}
}

// A call with other memory, or without a kernel, names itself.
func TestMistakes(t *testing.T) {
	t.Parallel()
	m := newMachine(t, nil)
	x, private := m.on(make([]float32, 8)), m.device.Vector(8)
	for _, c := range []struct {
		says string
		call func()
	}{
		{"device: axpy: an argument of 8 elements is not memory of the device",
			func() { m.device.Axpy(x, 1, make([]float32, 8)) }},
		{"device: exp: 8 elements, expected 7", func() { m.device.Exp(x[:7], x) }},
		{"device: Modulate has no kernel yet", func() { m.device.Modulate(x, x, x, nn.Image{}, 1) }},
		{"device: column sum: 8 elements, expected 6", func() { m.device.ColSum(private[:2], x, 3, 2, false) }},
	} {
		func() {
			defer func() { test.Equal(t, fmt.Sprint(recover()), c.says) }()
			c.call()
		}()
	}
	m.device.Exp(private, x)
	m.device.Axpy(x, 1, private)
	m.same(x, []float32{1, 1, 1, 1, 1, 1, 1, 1}, "private memory")
}
