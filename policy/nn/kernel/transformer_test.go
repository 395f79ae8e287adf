package kernel

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// rowShapes have rows with and without a rest, for vectors of 8 and of 16.
var rowShapes = []struct{ m, n int }{{1, 1}, {3, 8}, {2, 15}, {5, 16}, {4, 17}, {3, 24}, {2, 31}, {7, 64}, {3, 100},
	{0, 4}}

// exact checks that f writes the same bits at every level. f gets buffers of the given lengths, which are filled with
// numbers and guarded.
func exact(t *testing.T, what string, lengths []int, f func(x [][]float32)) {
	t.Helper()
	run := func(lv level) (all [][]float32, guards []guarded) {
		for i, n := range lengths {
			g := newGuarded(n, (n+i)%16)
			random(g.x, uint64(i+1))
			all, guards = append(all, g.x), append(guards, g)
		}
		atLevel(lv, func() { f(all) })
		return all, guards
	}
	want, _ := run(portable)
	for lv := avx2; lv <= best; lv++ {
		got, guards := run(lv)
		for i := range got {
			guards[i].check(t, what)
			sameBits(t, fmt.Sprintf("%s, level %d, slice %d", what, lv, i), got[i], want[i])
		}
	}
}

// Norms, rotations and dot products have the same bits at every level.
func TestRowsAtEveryLevel(t *testing.T) {
	for _, s := range rowShapes {
		mn := s.m * s.n
		exact(t, fmt.Sprint("rms norm ", s), []int{mn, s.m, mn, s.n}, func(x [][]float32) {
			RMSNorm(x[0], x[1], x[2], x[3], s.m, s.n, 1e-5)
		})
		exact(t, fmt.Sprint("rms norm in place ", s), []int{mn, s.m, s.n}, func(x [][]float32) {
			RMSNorm(x[0], x[1], x[0], x[2], s.m, s.n, 1e-5)
		})
		for _, acc := range []bool{false, true} {
			exact(t, fmt.Sprint("rms norm grad ", s, acc), []int{mn, s.n, mn, mn, s.n, s.m},
				func(x [][]float32) {
					RMSNormGrad(x[0], x[1], x[2], x[3], x[4], x[5], s.m, s.n, acc)
				})
			exact(t, fmt.Sprint("rms norm grad, frozen ", s, acc), []int{mn, mn, mn, s.n, s.m},
				func(x [][]float32) {
					RMSNormGrad(x[0], nil, x[1], x[2], x[3], x[4], s.m, s.n, acc)
				})
		}
		for _, back := range []bool{false, true} {
			const heads = 3
			exact(t, fmt.Sprint("rotate ", s, back), []int{2 * heads * mn, mn, mn}, func(x [][]float32) {
				Rotate(x[0], x[1], x[2], s.m, heads, s.n, 0.3, back)
			})
		}
		exact(t, fmt.Sprint("dot ", s), []int{1, mn, mn}, func(x [][]float32) {
			x[0][0] = Dot(x[1], x[2])
		})
	}
}

// Norms and rotations agree with values computed by hand. Rotating back undoes a rotation.
func TestNormAndRotationValues(t *testing.T) {
	x, w, y, inv := []float32{3, -4, 0, 0}, []float32{1, 2, 3, 4}, make([]float32, 4), make([]float32, 1)
	RMSNorm(y, inv, x, w, 1, 4, 0)
	sameBits(t, "rms norm", append(y, inv...), []float32{1.2, -3.2, 0, 0, 0.4})
	head := []float32{1, 2, 3, 4}
	Rotate(head, []float32{0, 1}, []float32{1, 0}, 1, 1, 2, 2, false)
	sameBits(t, "a quarter turn of the first pair, times two", head, []float32{-6, 4, 2, 8})
	Rotate(head, []float32{0, 1}, []float32{1, 0}, 1, 1, 2, 0.5, true)
	sameBits(t, "and back", head, []float32{1, 2, 3, 4})
}

// SwiGLU and its derivative agree with the definition. The vector levels give the same bits.
func TestSwiGLU(t *testing.T) {
	for _, n := range []int{1, 7, 16, 33, 200} {
		gate, up, dy := randomN(n, 1), randomN(n, 2), randomN(n, 3)
		var first [][]float32
		eachLevel(t, func(t *testing.T, lv level) {
			y, grad := newGuarded(n, n%5), newGuarded(n, n%3)
			dg, du := slices.Clone(gate), slices.Clone(up)
			SwiGLU(y.x, gate, up)
			SwiGLUGrad(grad.x, dg, du, dy)
			y.check(t, "swiglu")
			grad.check(t, "swiglu grad")
			sameBits(t, "swiglu again", grad.x, y.x)
			for i := range n {
				g, u, d := float64(gate[i]), float64(up[i]), float64(dy[i])
				s := 1 / (1 + math.Exp(-g))
				near(t, "swiglu", y.x[i], g*s*u)
				near(t, "by gate", dg[i], d*u*s*(1+g*(1-s)))
				near(t, "by up", du[i], d*g*s)
			}
			if lv == avx2 {
				first = [][]float32{y.x, dg, du}
			} else if lv == avx512 {
				for i, x := range [][]float32{y.x, dg, du} {
					sameBits(t, "against AVX2", x, first[i])
				}
			}
		})
	}
}

func near(t *testing.T, what string, got float32, want float64) {
	t.Helper()
	if d := math.Abs(float64(got) - want); !(d <= 2e-6*(1+math.Abs(want))) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

// softmaxCases are softmaxes of scores [rows, columns]. In row r, first + r·more columns count, from the left.
var softmaxCases = []struct{ rows, columns, first, more int }{
	{1, 1, 1, 0}, {5, 20, 3, 4}, {40, 70, 1, 1}, {3, 64, 64, 0}, {33, 33, 1, 1},
}

// softmaxOf returns the softmax of the first n columns of a row, followed by zeros, and log Σ exp of these columns.
func softmaxOf(row []float32, n int) (p []float64, lse float64) {
	p = make([]float64, len(row))
	sum := 0.0
	for j, x := range row[:n] {
		p[j] = math.Exp(float64(x))
		sum += p[j]
	}
	for j := range p {
		p[j] /= sum
	}
	return p, math.Log(sum)
}

// sameAtLevels returns a check that AVX-512 gives the same numbers as AVX2.
func sameAtLevels() func(t *testing.T, lv level, got []float32) {
	var first []float32
	return func(t *testing.T, lv level, got []float32) {
		t.Helper()
		if lv == avx2 {
			first = got
		} else if lv == avx512 {
			sameBits(t, "against AVX2", got, first)
		}
	}
}

const softmaxBlockColumns, softmaxStep = 32, 48

// A softmax over blocks is equal to a softmax over all columns.
func TestSoftmaxBlocks(t *testing.T) {
	const block, step = softmaxBlockColumns, softmaxStep
	for _, c := range softmaxCases {
		scores, same := randomN(c.rows*c.columns, 1), sameAtLevels()
		eachLevel(t, func(t *testing.T, lv level) {
			top, sum, decay := make([]float32, c.rows), make([]float32, c.rows), make([]float32, c.rows)
			for r := range top {
				top[r] = float32(math.Inf(-1))
			}
			p := make([]float32, c.rows*c.columns)
			for b := 0; b < c.columns; b += block {
				width := min(block, c.columns-b)
				x := block16(c.rows, step, width, c.columns, scores[b:])
				SoftmaxBlock(x, step, c.rows, width, c.first-b, c.more, top, sum, decay)
				for r := range c.rows {
					for j := range b {
						p[r*c.columns+j] *= decay[r]
					}
					copy(p[r*c.columns+b:][:width], x[r*step:])
				}
			}
			for r := range c.rows {
				want, _ := softmaxOf(scores[r*c.columns:][:c.columns], min(c.first+r*c.more, c.columns))
				for j, w := range want {
					near(t, "softmax", p[r*c.columns+j]/sum[r], w)
				}
			}
			same(t, lv, append(append(p, sum...), top...))
		})
	}
	mustPanic(t, "rows without room", func() { SoftmaxBlock(make([]float32, 40), 20, 2, 20, 20, 0, nil, nil, nil) })
}

// The derivative of a softmax in a block is p·(dp - Σ p·dp), with the sum over all columns.
func TestSoftmaxBlockGrad(t *testing.T) {
	const block, step = softmaxBlockColumns, softmaxStep
	for _, c := range softmaxCases {
		scores, slopes, same := randomN(c.rows*c.columns, 1), randomN(c.rows*c.columns, 2), sameAtLevels()
		eachLevel(t, func(t *testing.T, lv level) {
			lse, mean := make([]float32, c.rows), make([]float32, c.rows)
			for r := range c.rows {
				p, l := softmaxOf(scores[r*c.columns:][:c.columns], min(c.first+r*c.more, c.columns))
				sum := 0.0
				for j, w := range p {
					sum += w * float64(slopes[r*c.columns+j])
				}
				lse[r], mean[r] = float32(l), float32(sum)
			}
			width := min(block, c.columns)
			x, d := block16(c.rows, step, width, c.columns, scores), block16(c.rows, step, width, c.columns, slopes)
			SoftmaxBlockGrad(x, d, step, c.rows, width, c.first, c.more, lse, mean)
			var all []float32
			for r := range c.rows {
				for j := range width {
					want := 0.0
					if j < c.first+r*c.more {
						want = math.Exp(float64(scores[r*c.columns+j]) - float64(lse[r]))
					}
					near(t, "probability", x[r*step+j], want)
					near(t, "derivative", d[r*step+j], want*(float64(slopes[r*c.columns+j])-float64(mean[r])))
					all = append(all, x[r*step+j], d[r*step+j])
				}
			}
			same(t, lv, all)
		})
	}
}

// block16 copies width columns of each row to rows of length step. The rest of these rows is NaN.
func block16(rows, step, width, columns int, from []float32) []float32 {
	x := make([]float32, rows*step)
	for i := range x {
		x[i] = float32(math.NaN())
	}
	for r := range rows {
		copy(x[r*step:][:width], from[r*columns:])
	}
	return x
}

func TestSumExp(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, x := range [][]float32{{2}, {-1, -3}, {500, -inf, 499}, randomN(15, 1), randomN(16, 2), randomN(100, 3),
		randomN(1000, 4)} {
		var first []float32
		eachLevel(t, func(t *testing.T, lv level) {
			top, sum, weighted := SumExp(x)
			if top != slices.Max(x) {
				t.Errorf("the largest of %v is %v", x, top)
			}
			wantSum, wantWeighted := 0.0, 0.0
			for _, v := range x {
				if e := math.Exp(float64(v - top)); e > 0 {
					wantSum, wantWeighted = wantSum+e, wantWeighted+e*float64(v-top)
				}
			}
			near(t, "sum", sum, wantSum)
			near(t, "weighted sum", weighted, wantWeighted)
			if got := []float32{top, sum, weighted}; lv == avx2 {
				first = got
			} else if lv == avx512 {
				sameBits(t, "against AVX2", got, first)
			}
		})
	}
	if _, sum, _ := SumExp([]float32{1, float32(math.NaN()), 2}); sum == sum {
		t.Errorf("a NaN is lost: %v", sum)
	}
}

func TestTransformerLengths(t *testing.T) {
	x := make([]float32, 6)
	mustPanic(t, "rms norm", func() { RMSNorm(x, x[:3], x, x[:3], 2, 3, 1) })
	mustPanic(t, "rms norm grad", func() { RMSNormGrad(x, x[:2], x, x, x[:3], x[:2], 2, 3, false) })
	mustPanic(t, "rotate", func() { Rotate(x, x[:2], x[:3], 3, 1, 1, 1, false) })
	mustPanic(t, "swiglu", func() { SwiGLU(x, x, x[:5]) })
	mustPanic(t, "swiglu grad", func() { SwiGLUGrad(x, x, x, x[:5]) })
	mustPanic(t, "exp less", func() { ExpLess(x, x[:5], 1) })
	mustPanic(t, "scale to", func() { ScaleTo(x, 1, x[:5]) })
	mustPanic(t, "dot", func() { Dot(x, x[:5]) })
}

func TestTransformerAllocatesNothing(t *testing.T) {
	x, y, z, w := randomN(320, 1), randomN(320, 2), randomN(320, 3), randomN(32, 4)
	test.NoAllocs(t, 5, func() {
		RMSNorm(x, w[:10], y, w, 10, 32, 1)
		RMSNormGrad(x, w, y, z, w, w[:10], 10, 32, true)
		Rotate(x, y[:160], z[:160], 10, 1, 16, 1, false)
		SwiGLU(x, y, z)
		SwiGLUGrad(x, y, z, z)
		SoftmaxBlock(x, 32, 10, 32, 1, 1, w[:10], w[10:20], w[20:30])
		SoftmaxBlockGrad(x, y, 32, 10, 32, 1, 1, w, w)
		SumExp(x)
		Dot(x, y)
	})
}
