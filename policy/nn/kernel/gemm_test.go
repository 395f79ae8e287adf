package kernel

import (
	"fmt"
	"math"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// shapes of the products that policies are made of, and of the corners of the register tiles: m rows, n
// columns, k summed.
var shapes = []struct{ m, n, k int }{
	{1, 1, 1}, {1, 1, 17}, {2, 3, 0}, {3, 2, 5}, {4, 64, 64}, {5, 7, 9}, {6, 6, 64}, {7, 15, 2}, {8, 16, 4},
	{9, 17, 17}, {13, 31, 3},
	{16, 32, 6}, {17, 33, 64}, {4, 47, 11}, {12, 48, 8}, {3, 63, 64}, {5, 65, 64}, {6, 79, 5}, {2, 80, 5},
	{11, 127, 10}, {23, 129, 300},
	{128, 64, 4}, {128, 64, 64}, {128, 2, 64}, {128, 1, 64}, {64, 64, 128}, {64, 2, 128}, {64, 1, 128}, {4, 64, 128},
	{33, 4, 513},
	{600, 3, 4}, {1, 2, 40}, {40, 3, 1}, {600, 3, 40}, {13, 4, 47}, {7, 3, 32}, {8, 1, 300}, {300, 8, 20}, {70, 5, 300},
	{16, 7, 3}, {40, 256, 257}, {1, 6, 700}, {100, 6, 256},
}

// kinds are the products.
var kinds = []struct {
	name string
	trans,
	acc,
	bias bool
}{{name: "gemm"}, {name: "gemm acc", acc: true}, {name: "gemm bias", bias: true}, {name: "gemm ta", trans: true},
	{name: "gemm ta acc", trans: true, acc: true}}

// fma32 is a·b + c with one rounding to float32: the exact product plus c, rounded to odd in float64, then to nearest.
func fma32(a, b, c float32) float32 {
	p, q := float64(a)*float64(b), float64(c)
	s := p + q
	bv := s - p
	if rest := (p - (s - bv)) + (q - bv); rest != 0 && math.Float64bits(s)&1 == 0 {
		s = math.Nextafter(s, math.Copysign(math.Inf(1), rest))
	}
	return float32(s)
}

// dot returns first plus Σ x·y in the order of narrow products. Each block of 256 has sixteen chains, over k mod 16,
// which are added as a tree and then to the sum of the blocks before.
func dot(first float32, k int, x, y func(p int) float32) float32 {
	for block := 0; block < k; block += 256 {
		var l [16]float32
		for p := block; p < min(block+256, k); p++ {
			l[p%16] = fma32(x(p), y(p), l[p%16])
		}
		for i := range 8 {
			l[i] += l[i+8]
		}
		first += ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]))
	}
	return first
}

func chain(first float32, k int, x, y func(p int) float32) float32 {
	for p := range k {
		first = fma32(x(p), y(p), first)
	}
	return first
}

func TestProducts(t *testing.T) {
	for _, kind := range kinds {
		for si, s := range shapes {
			what := fmt.Sprintf("%s %d×%d×%d", kind.name, s.m, s.n, s.k)
			a, b, bias, before := randomN(s.m*s.k, 1), randomN(s.k*s.n, 2), randomN(s.n, 3), randomN(s.m*s.n, 4)
			left, from, order := matrix[float32]{a, s.k, 1}, start[float32]{acc: kind.acc}, chain
			if kind.trans {
				left = matrix[float32]{a, 1, s.m}
			}
			if kind.bias {
				from.bias = bias
			}
			if !kind.trans && s.n <= 4 && s.k >= 32 {
				order = dot
			}
			exact, vector := make([]float64, s.m*s.n), make([]float32, s.m*s.n)
			bound := make([]float64, s.m*s.n)
			for i := range s.m {
				for j := range s.n {
					var first float32
					switch {
					case kind.acc:
						first = before[i*s.n+j]
					case kind.bias:
						first = bias[j]
					}
					x := func(p int) float32 { return a[i*left.row+p*left.col] }
					y := func(p int) float32 { return b[p*s.n+j] }
					sum, size := float64(first), math.Abs(float64(first))
					for p := range s.k {
						sum += float64(x(p)) * float64(y(p))
						size += math.Abs(float64(x(p)) * float64(y(p)))
					}
					at := i*s.n + j
					exact[at], bound[at], vector[at] = sum, size*float64(s.k+1)*0x1p-23, order(first, s.k, x, y)
				}
			}
			for lv := portable; lv <= best; lv++ {
				c := newGuarded(s.m*s.n, si%17)
				copy(c.x, before)
				atLevel(lv, func() { product(c.x, b, &left, &from, s.m, s.n, s.k) })
				c.check(t, what)
				for at, got := range c.x {
					if math.Abs(float64(got)-exact[at]) > bound[at] {
						t.Fatalf("level %d, %s: C[%d] = %v, want %v ± %v", lv, what, at, got, exact[at], bound[at])
					}
				}
				if lv != portable {
					sameBits(t, what+" in the order that is promised", c.x, vector)
				}
			}
		}
	}
}

// A row of a product has the same bits in any batch, at any place of the batch, and at any alignment.
func TestRowsOfAnyBatch(t *testing.T) {
	const most = 512
	eachLevel(t, func(t *testing.T, _ level) {
		for _, s := range []struct{ n, k, step int }{{64, 17, 1}, {64, 64, 7}, {64, 4, 3}, {1, 64, 1}, {2, 70, 3},
			{6, 17, 5}, {3, 5, 1}, {70, 33, 7}, {256, 64, 61}} {
			a, b, bias := randomN(most*s.k, 1), randomN(s.k*s.n, 2), randomN(s.n, 3)
			whole := make([]float32, most*s.n)
			product(whole, b, &matrix[float32]{a, s.k, 1}, &start[float32]{bias: bias}, most, s.n, s.k)
			for m := 1; m <= most; m += s.step {
				first := (m * 7919) % (most - m + 1)
				c, x, w := newGuarded(m*s.n, m%16), newGuarded(m*s.k, (m/16)%16), newGuarded(s.k*s.n, (m/3)%16)
				copy(x.x, a[first*s.k:])
				copy(w.x, b)
				product(c.x, w.x, &matrix[float32]{x.x, s.k, 1}, &start[float32]{bias: bias}, m, s.n, s.k)
				what := fmt.Sprintf("rows %d to %d of a batch, n=%d, k=%d", first, first+m, s.n, s.k)
				sameBits(t, what, c.x, whole[first*s.n:][:m*s.n])
				c.check(t, what)
			}
		}
	})
}

// A zero in A does not hide an element of B that is not finite, at any place.
func TestZeroTimesNaN(t *testing.T) {
	eachLevel(t, func(t *testing.T, _ level) {
		const m = 17
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
			for _, n := range []int{1, 2, 4, 5, 8, 15, 16, 17, 33, 64, 70} {
				for _, k := range []int{5, 37} {
					a, c := make([]float32, m*k), make([]float32, m*n)
					for p := range k {
						b := make([]float32, k*n)
						b[p*n+n-1] = bad
						for _, left := range []matrix[float32]{{a, k, 1}, {a, 1, m}} {
							product(c, b, &left, &start[float32]{}, m, n, k)
							for i, v := range c {
								if isNaN := v != v; isNaN != (i%n == n-1) {
									t.Fatalf("n=%d, k=%d: B[%d,%d] = %v and zeros in A give C[%d] = %v", n, k, p, n-1,
										bad, i, v)
								}
							}
						}
					}
				}
			}
		}
	})
}

// Gradient checks rely on the float64 products.
func TestProductsFloat64(t *testing.T) {
	const m, n, k = 3, 5, 7
	a, b, bias := make([]float64, m*k), make([]float64, k*n), make([]float64, n)
	for i := range a {
		a[i] = math.Sin(float64(i))
	}
	for i := range b {
		b[i] = math.Cos(float64(i))
	}
	for j := range bias {
		bias[j] = float64(j)
	}
	at, c, ta := make([]float64, m*k), make([]float64, m*n), make([]float64, m*n)
	Transpose(at, a, m, k)
	GemmBias(c, a, b, bias, m, n, k)
	GemmTA(ta, at, b, m, n, k, false)
	for i := range m {
		for j := range n {
			want := 0.0
			for p := range k {
				want += a[i*k+p] * b[p*n+j]
			}
			if got := ta[i*n+j]; math.Abs(got-want) > 1e-14 {
				t.Errorf("AᵀB[%d,%d] = %v, want %v", i, j, got, want)
			}
			if got := c[i*n+j]; math.Abs(got-want-bias[j]) > 1e-14 {
				t.Errorf("AB+bias[%d,%d] = %v, want %v", i, j, got, want+bias[j])
			}
		}
	}
}

func TestGemmLengths(t *testing.T) {
	x := make([]float32, 6)
	mustPanic(t, "c too short", func() { Gemm(x[:5], x, x[:4], 3, 2, 2, false) })
	mustPanic(t, "a too long", func() { Gemm(x, x, x[:2], 3, 2, 1, false) })
	mustPanic(t, "b too short", func() { GemmTA(x, x[:3], x[:1], 3, 2, 1, false) })
	mustPanic(t, "bias too long", func() { GemmBias(x, x[:3], x[:2], x[:3], 3, 2, 1) })
	mustPanic(t, "negative", func() { Gemm(x, x, x[:4], -3, -2, 2, false) })
}

func TestGemmAllocatesNothing(t *testing.T) {
	const m, n, k = 128, 256, 300
	a, b, c, bias := randomN(m*k, 1), randomN(k*n, 2), randomN(m*n, 3), randomN(n, 4)
	test.NoAllocs(t, 5, func() {
		GemmBias(c, a, b, bias, m, n, k)
		Gemm(c, a, b, m, n, k, true)
		GemmTA(c, a, b, m, n, k, true)
		GemmTA(c[:k], a, b[:m], k, 1, m, false)
		ColSum(bias, b, k, n, true)
	})
}
