package kernel

import (
	"fmt"
	"slices"
	"testing"
)

// tree returns the sum of the blocks [lo, hi) of a product, by the definition in Multiplier. f(b) is block b.
func tree(lo, hi int, f func(b int) float32) float32 {
	if hi-lo == 1 {
		return f(lo)
	}
	mid := (lo + hi) / 2
	return tree(lo, mid, f) + tree(mid, hi, f)
}

// mulAdd returns a·b + c as the level computes it.
func mulAdd(lv level, a, b, c float32) float32 {
	if lv == portable {
		return c + a*b
	}
	return fma32(a, b, c)
}

// Every element is the tree of chains that the doc of Multiplier describes, whatever the shape.
func TestMultiplierProduct(t *testing.T) {
	shapes := []struct {
		m, n int
		k    []int
	}{
		{1, 1, []int{1}}, {1, 64, []int{64}}, {3, 17, []int{8, 5}}, {25, 66, []int{300}}, {23, 5, []int{40, 16, 24}},
		{200, 70, []int{33}}, {2, 3, []int{0}},
		{30, 130, []int{16, 520}}, {193, 1, []int{7}},
		{25, 3, []int{2100}}, {4, 70, []int{30, 9}},
	}
	eachLevel(t, func(t *testing.T, lv level) {
		x := NewMultiplier()
		for si, s := range shapes {
			for _, blocks := range []int{1, 2, 4, 8} {
				for _, begin := range []string{"zero", "bias", "acc", "other"} {
					what := fmt.Sprintf("%v blocks %d %s", s, blocks, begin)
					var terms []Term
					for i, k := range s.k {
						terms = append(terms, Term{A: randomN(s.m*k, uint64(si+i)), B: randomN(k*s.n, uint64(99+si+i)),
							K: k, Transposed: (si+i)%2 == 0})
					}
					c := newGuarded(s.m*s.n, si)
					random(c.x, 7)
					var initial []float32
					first := make([]float32, s.m*s.n)
					switch begin {
					case "bias":
						initial = randomN(s.n, 5)
						for i := range first {
							first[i] = initial[i%s.n]
						}
					case "acc":
						initial = c.x
						copy(first, c.x)
					case "other":
						initial = randomN(s.m*s.n, 6)
						copy(first, initial)
					}
					want := productByHand(lv, first, s.m, s.n, blocks, begin == "zero", terms)
					x.Product(c.x, s.m, s.n, blocks, initial, terms...)
					c.check(t, what)
					sameBits(t, what, c.x, want)
				}
			}
		}
	})
}

// productByHand returns first plus the product of terms, one element after the other. Each block is one chain, and a
// tree adds the blocks. If zero is set, first is not added.
func productByHand(lv level, first []float32, m, n, blocks int, zero bool, terms []Term) []float32 {
	want := make([]float32, m*n)
	for at := range want {
		i, j := at/n, at%n
		chain := func(sum float32, b int) float32 {
			for _, t := range terms {
				w := (t.K + blocks - 1) / blocks
				for p := min(b*w, t.K); p < min((b+1)*w, t.K); p++ {
					from := p*n + j
					if t.Transposed {
						from = j*t.K + p
					}
					sum = mulAdd(lv, t.A[i*t.K+p], t.B[from], sum)
				}
			}
			return sum
		}
		switch {
		case blocks == 1:
			want[at] = chain(first[at], 0)
		case zero:
			want[at] = tree(0, blocks, func(b int) float32 { return chain(0, b) })
		default:
			want[at] = tree(0, blocks, func(b int) float32 { return chain(0, b) }) + first[at]
		}
	}
	return want
}

// A gradient is one chain over all rows, also if the rows come in several calls.
func TestMultiplierGradient(t *testing.T) {
	eachLevel(t, func(t *testing.T, lv level) {
		x := NewMultiplier()
		for si, s := range []struct{ m, n, k int }{{1, 1, 1}, {50, 70, 300}, {7, 16, 20}, {97, 5, 257}, {16, 65, 3}} {
			a, b := randomN(s.k*s.m, 1), randomN(s.k*s.n, 2)
			c := newGuarded(s.m*s.n, si)
			random(c.x, 3)
			want := append([]float32{}, c.x...)
			for i := range want {
				for p := range s.k {
					want[i] = mulAdd(lv, a[p*s.m+i/s.n], b[p*s.n+i%s.n], want[i])
				}
			}
			half := s.k / 3
			x.Gradient(c.x, a[:half*s.m], b[:half*s.n], s.m, s.n, half)
			x.Gradient(c.x, a[half*s.m:], b[half*s.n:], s.m, s.n, s.k-half)
			c.check(t, fmt.Sprint(s))
			sameBits(t, fmt.Sprint(s), c.x, want)
		}
	})
}

// All parts of a product, or of a gradient, together give the bits of the whole.
func TestMultiplierParts(t *testing.T) {
	eachLevel(t, func(t *testing.T, _ level) {
		for _, s := range []struct{ m, n, k, blocks int }{{5, 200, 40, 2}, {400, 70, 33, 4}, {30, 64, 20, 1},
			{390, 3, 9, 1}} {
			for _, transposed := range []bool{false, true} {
				term := Term{A: randomN(s.m*s.k, 1), B: randomN(s.k*s.n, 2), K: s.k, Transposed: transposed}
				want, gradient := randomN(s.m*s.n, 3), randomN(s.m*s.n, 4)
				x := NewMultiplier()
				start, startGradient := slices.Clone(want), slices.Clone(gradient)
				x.Product(want, s.m, s.n, s.blocks, want, term)
				x.Gradient(gradient, randomN(s.k*s.m, 5), randomN(s.k*s.n, 6), s.m, s.n, s.k)
				for parts := 2; parts <= 5; parts++ {
					c, g := slices.Clone(start), slices.Clone(startGradient)
					for number := range parts {
						NewMultiplier().ProductPart(number, parts, c, s.m, s.n, s.blocks, c, term)
						NewMultiplier().GradientPart(number, parts, g, randomN(s.k*s.m, 5), randomN(s.k*s.n, 6), s.m,
							s.n, s.k)
					}
					sameBits(t, fmt.Sprint("product ", s, parts), c, want)
					sameBits(t, fmt.Sprint("gradient ", s, parts), g, gradient)
				}
			}
		}
	})
}

// Pages gives the bits of products with matrices side by side.
func TestMultiplierPages(t *testing.T) {
	eachLevel(t, func(t *testing.T, lv level) {
		x := NewMultiplier()
		for _, s := range []struct{ m, k, count int }{{1, 1, 1}, {2, 64, 4}, {9, 20, 3}, {32, 16, 2}, {4, 33, 1}} {
			const cStep = 70
			aRow := s.k + 3
			a, c := randomN(s.m*aRow, 1), newGuarded(s.m*cStep, s.m)
			var pages [maxPages][]float32
			for i := range s.count {
				pages[i] = randomN(s.k*pageColumns, uint64(i+2))
			}
			x.Pages(c.x, cStep, a, aRow, pages, s.m, s.k)
			c.check(t, fmt.Sprint(s))
			for i := range s.m {
				for j := range s.count * pageColumns {
					want := float32(0)
					for p := range s.k {
						want = mulAdd(lv, a[i*aRow+p], pages[j/pageColumns][p*pageColumns+j%pageColumns], want)
					}
					sameBits(t, fmt.Sprint(s, i, j), c.x[i*cStep+j:][:1], []float32{want})
				}
				sameBits(t, fmt.Sprint(s, ": behind row ", i), c.x[i*cStep+64:][:cStep-64], filled(cStep-64))
			}
		}
	})
}

// filled returns n words as they are in a new guarded slice.
func filled(n int) []float32 { return newGuarded(n, 0).x }

// Strided multiplies submatrices of larger matrices. Their steps may transpose A.
func TestMultiplierStrided(t *testing.T) {
	eachLevel(t, func(t *testing.T, lv level) {
		x := NewMultiplier()
		const m, n, k, cStep, bStep = 9, 20, 16, 31, 25
		a, b := randomN(k*m, 1), randomN(k*bStep, 2)
		for _, acc := range []bool{false, true} {
			for _, steps := range [][2]int{{k, 1}, {1, m}} {
				c := newGuarded(m*cStep, 3)
				random(c.x, 4)
				want := append([]float32{}, c.x...)
				for i := range m {
					for j := range n {
						sum := float32(0)
						if acc {
							sum = want[i*cStep+j]
						}
						for p := range k {
							sum = mulAdd(lv, a[i*steps[0]+p*steps[1]], b[p*bStep+j], sum)
						}
						want[i*cStep+j] = sum
					}
				}
				x.Strided(c.x, cStep, a, steps[0], steps[1], b, bStep, m, n, k, acc)
				sameBits(t, fmt.Sprint(acc, steps), c.x, want)
			}
		}
	})
}

func BenchmarkMultiplier(b *testing.B) {
	for _, s := range []struct{ m, n, k, blocks int }{
		{512, 512, 512, 1}, {512, 512, 512, 8}, {512, 896, 4864, 2}, {2048, 64, 64, 1}, {2048, 64, 176, 2},
		{16, 64, 64, 1}, {16, 256, 256, 1},
		{16, 896, 4864, 2}, {1, 896, 4864, 2}, {1, 4864, 896, 1},
	} {
		a, w, c := randomN(s.m*s.k, 1), randomN(s.k*s.n, 2), make([]float32, s.m*s.n)
		for _, trans := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dx%dx%d/%d/%v", s.m, s.k, s.n, s.blocks, trans), func(b *testing.B) {
				x := NewMultiplier()
				for b.Loop() {
					x.Product(c, s.m, s.n, s.blocks, nil, Term{A: a, B: w, K: s.k, Transposed: trans})
				}
				reportFlops(b, s.m, s.n, s.k)
			})
		}
	}
	for _, s := range []struct{ m, n, k int }{{512, 512, 512}, {64, 64, 2048}, {256, 1024, 512}} {
		x, dy, dw := randomN(s.m*s.k, 1), randomN(s.k*s.n, 2), randomN(s.m*s.n, 3)
		b.Run(fmt.Sprintf("gradient %dx%dx%d", s.m, s.k, s.n), func(b *testing.B) {
			y := NewMultiplier()
			for b.Loop() {
				y.Gradient(dw, x, dy, s.m, s.n, s.k)
			}
			reportFlops(b, s.m, s.n, s.k)
		})
	}
}
