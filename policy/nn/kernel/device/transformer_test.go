package device

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	cpu "github.com/rlinf/rlinf/policy/nn/kernel"
)

// A treeShape is a product of several terms.
type treeShape struct {
	m, n, blocks int
	k            []int
	transposed   bool
}

// compareTree checks a product of several terms, with all kinds of initial values.
func (m *machine) compareTree(s treeShape, share float64) {
	var terms, there []cpu.Term
	for _, k := range s.k {
		t := cpu.Term{A: m.numbers(s.m*k, share), B: m.numbers(k*s.n, share), K: k, Transposed: s.transposed}
		if k > 8 {
			t.Width = (k+s.blocks-1)/s.blocks + 1 // the last block has fewer steps
		}
		terms = append(terms, t)
		t.A, t.B = m.on(t.A), m.on(t.B)
		there = append(there, t)
	}
	bias, other, old := m.numbers(s.n, share), m.numbers(s.m*s.n, share), m.numbers(s.m*s.n, share)
	for name, initial := range map[string][2][]float32{"none": {}, "bias": {bias, m.on(bias)},
		"other": {other, m.on(other)}, "own": {}} {
		want, got := slices.Clone(old), m.on(old)
		if name == "own" {
			initial = [2][]float32{want, got}
		}
		cpu.NewMultiplier().Product(want, s.m, s.n, s.blocks, initial[0], terms...)
		m.device.BlockProduct(got, s.m, s.n, s.blocks, initial[1], there)
		m.same(got, want, "%+v, initial values %s", s, name)
	}
}

// Sums of products in blocks have the bits of a Multiplier.
func TestTrees(t *testing.T) {
	t.Parallel()
	m := newMachine(t, nil)
	for _, s := range []treeShape{
		{1, 1, 1, []int{1}, true}, {5, 7, 1, []int{9}, false}, {33, 20, 1, []int{12, 5}, false},
		{17, 3, 2, []int{40}, false}, {3, 18, 4, []int{33, 8}, true}, {20, 17, 8, []int{37, 3, 16}, true},
		{2, 2, 8, []int{5}, false}, {500, 540, 1, []int{3}, true}, {450, 600, 2, []int{5}, false},
		{9, 5, 4, []int{0}, true},
	} {
		m.compareTree(s, 0)
		if s.m < 100 {
			m.compareTree(s, 0.02)
		}
	}
}

// Norms, rotations and gates have the bits of package kernel.
func TestTransformerRows(t *testing.T) {
	t.Parallel()
	m := newMachine(t, nil)
	d := m.device
	for _, s := range [][2]int{{1, 1}, {12, 16}, {18, 37}, {36, 6}, {48, 130}} {
		rows, n := s[0], s[1]
		for _, share := range []float64{0, 0.05} {
			x, dy, old, w := m.numbers(rows*n, share), m.numbers(rows*n, share), m.numbers(rows*n, share),
				m.numbers(n, share)
			y, inv := make([]float32, rows*n), make([]float32, rows)
			dx, gotInv, dw := m.on(x), m.on(inv), m.on(w)
			cpu.RMSNorm(y, inv, x, w, rows, n, 1e-6)
			d.RMSNorm(dx, gotInv, dx, dw, rows, n, 1e-6)
			m.same(dx, y, "norm %v", s)
			m.same(gotInv, inv, "factors of a norm %v", s)
			for _, acc := range []bool{false, true} {
				want, sums, got, gotSums := slices.Clone(old), slices.Clone(w), m.on(old), m.on(w)
				cpu.RMSNormGrad(want, sums, dy, x, w, inv, rows, n, acc)
				d.RMSNormGrad(got, gotSums, m.on(dy), m.on(x), dw, gotInv, rows, n, 1, acc)
				m.same(got, want, "gradient of a norm %v", s)
				m.same(gotSums, sums, "gradient of a norm's weight %v", s)
			}
			gate, up := slices.Clone(x), slices.Clone(old)
			gotY, gotGate, gotUp := m.on(y), m.on(gate), m.on(up)
			cpu.SwiGLU(y, gate, up)
			d.SwiGLU(gotY, gotGate, gotUp)
			m.same(gotY, y, "swiglu %v", s)
			cpu.SwiGLUGrad(y, gate, up, dy)
			d.SwiGLUGrad(gotY, gotGate, gotUp, m.on(dy))
			m.same(gotY, y, "swiglu of the gradient %v", s)
			m.same(gotGate, gate, "gradient of gates %v", s)
			m.same(gotUp, up, "gradient of factors %v", s)
			if n%2 == 1 {
				continue
			}
			const heads, keyHeads = 3, 1
			cos, sin := m.numbers(rows/4*n/2, share), m.numbers(rows/4*n/2, share)
			for _, inverse := range []bool{false, true} {
				q, k := slices.Clone(x[:rows/4*heads*n]), slices.Clone(dy[:rows/4*keyHeads*n])
				gotQ, gotK := m.on(q), m.on(k)
				cpu.Rotate(q, cos, sin, rows/4, heads, n/2, 0.3, inverse)
				cpu.Rotate(k, cos, sin, rows/4, keyHeads, n/2, 1, inverse)
				d.Rotate(gotQ, gotK, m.on(cos), m.on(sin), rows/4, heads, keyHeads, n/2, 0.3, inverse)
				m.same(gotQ, q, "queries %v, %v", s, inverse)
				m.same(gotK, k, "keys %v, %v", s, inverse)
			}
		}
	}
}

// Embeddings are copied and added, and rows by their indices.
func TestIndexedRows(t *testing.T) {
	t.Parallel()
	m := newMachine(t, nil)
	const vocabulary, width = 11, 5
	table, ids := m.numbers(vocabulary*width, 0), []int32{3, 10, -1, 3, 0}
	for _, transposed := range []bool{false, true} {
		want, got := make([]float32, len(ids)*width), m.on(make([]float32, len(ids)*width))
		for i, id := range ids {
			for j := range width {
				if id >= 0 && transposed {
					want[i*width+j] = table[j*vocabulary+int(id)]
				} else if id >= 0 {
					want[i*width+j] = table[int(id)*width+j]
				}
			}
		}
		m.device.Embed(got, m.on(table), ids, width, transposed)
		m.same(got, want, "embeddings, transposed: %v", transposed)
	}
	x, want := m.numbers(3*width, 0), slices.Clone(table)
	got := m.on(table)
	for i, id := range []int32{7, 2, 10} {
		for j := range width {
			want[j*vocabulary+int(id)] += x[i*width+j]
		}
	}
	m.device.AddEmbeddings(got, m.on(x), []int32{7, 2, 10}, width)
	m.same(got, want, "sum of embeddings")

	// Two of the rows are outside.
	to, from := nn.Rows{Index: []int32{4, 1, 4, 12, 0, 4}}, nn.Rows{Index: []int32{2, 2, 0, 1, -1, 5}}
	src := m.numbers(6*width, 0)
	for name, call := range map[string]func(o nn.Ops[float32], dst, src []float32){
		"copy": func(o nn.Ops[float32], dst, src []float32) { o.CopyRows(dst, to, src, from, nil, width, 6) },
		"add":  func(o nn.Ops[float32], dst, src []float32) { o.AddRows(dst, to, src, from, nil, width, 6) },
	} {
		want, got := slices.Clone(table), m.on(table)
		call(m.host, want, src)
		call(m.device, got, m.on(src))
		m.same(got, want, "%s rows", name)
	}
	scales := m.numbers(6, 0.3)
	want, got = slices.Clone(table), m.on(table)
	m.host.AddRows(want, to, src, from, scales, width, 6)
	m.device.AddRows(got, to, m.on(src), from, scales, width, 6)
	m.same(got, want, "add rows with a scale")
}

// Values are sums in float64.
func TestValues(t *testing.T) {
	t.Parallel()
	m := newMachine(t, nil)
	const width = 37
	for _, share := range []float64{0, 0.01} {
		x, w, bias := m.numbers(9*width, share), m.numbers(width, share), m.numbers(1, 0)
		rows := make([]int32, 300)
		want, got := make([]float32, len(rows)), make([]float32, len(rows))
		for i := range rows {
			rows[i] = int32(i * i % 9)
			sum := float64(bias[0])
			for j, v := range w {
				sum += float64(v) * float64(x[int(rows[i])*width+j])
			}
			want[i] = float32(sum)
		}
		m.device.Values(got, m.on(x), m.on(w), m.on(bias), rows)
		m.equal(got, want, "values, share %v", share)
	}
}

// Numbers of rows of logits have the bits of package kernel.
func TestEntropy(t *testing.T) {
	t.Parallel()
	m := newMachine(t, nil)
	for _, s := range []struct{ n, width, blocks, block int }{{1, 1, 1, 1}, {3, 40, 1, 40}, {5, 37, 4, 10},
		{18, 300, 8, 38}, {2, 9, 8, 2}} {
		for _, share := range []float64{0, 0.1} {
			logits, tokens, per := m.numbers(s.n*s.width, share), make([]int32, s.n), 3*s.blocks+1
			want, got := make([]float32, s.n*per), make([]float32, s.n*per)
			best, gotBest := make([]float32, 2*s.n), make([]float32, 2*s.n)
			there := m.on(logits)
			for r := range s.n {
				row := logits[r*s.width : (r+1)*s.width]
				for b := range s.blocks {
					sums := want[r*per+3*b:]
					if x := row[min(b*s.block, s.width):min((b+1)*s.block, s.width)]; len(x) > 0 {
						sums[0], sums[1], sums[2] = cpu.SumExp(x)
					} else {
						sums[0] = float32(math.Inf(-1))
					}
				}
				tokens[r] = int32(m.random.IntN(s.width))
				want[(r+1)*per-1] = row[tokens[r]]
				at := 0
				for i, x := range row {
					if x > row[at] {
						at = i
					}
				}
				best[2*r], best[2*r+1] = row[at], float32(at)
			}
			m.device.CrossEntropy(got, there, tokens, s.width, s.blocks, s.block)
			m.equal(got, want, "sums %+v", s)
			m.device.Largest(gotBest, there, s.n, s.width)
			m.equal(gotBest, best, "largest %+v", s)
		}
	}
	// A row with a slope of the entropy, and one without; -200 less the sum has no probability.
	logits, facts := []float32{1, -200, 0.5, 0.25, 3, 2}, []float32{1.5, 0.9, 2, 0.25, 3.5, 0.4, -1, 0}
	tokens, want := []int32{0, 2}, slices.Clone(logits)
	for r, token := range tokens {
		row, f := want[3*r:3*r+3], facts[4*r:]
		p := make([]float32, 3)
		cpu.ExpLess(p, row, f[0])
		for j, x := range row {
			switch {
			case f[3] == 0:
				row[j] = p[j] * -f[2]
			case p[j] == 0:
				row[j] = 0
			default:
				row[j] = -p[j] * (f[2] + float32(f[3]*(x-f[0]+f[1])))
			}
		}
		row[token] += f[2]
	}
	got := m.on(logits)
	m.device.CrossEntropyGrad(got, facts, tokens, 3)
	m.same(got, want, "gradients of logits")
}

// equal is same for memory of the program.
func (m *machine) equal(got, want []float32, about string, args ...any) {
	m.t.Helper()
	for i, w := range want {
		if g := got[i]; math.Float32bits(g) != math.Float32bits(w) && (g == g || w == w) {
			m.t.Fatalf("%s: element %d is %x, want %x", fmt.Sprintf(about, args...), i, g, w)
		}
	}
}

// Calls with arguments that do not fit name themselves.
func TestTransformerMistakes(t *testing.T) {
	t.Parallel()
	m := newMachine(t, nil)
	x := m.on(make([]float32, 12))
	for says, call := range map[string]func(){
		"device: CopyRows with a scale has no kernel yet": func() {
			m.device.CopyRows(x, nn.Rows{}, x, nn.Rows{}, x, 3, 4)
		},
		"device: block product: 5 elements, expected 12": func() {
			m.device.BlockProduct(x, 3, 4, 2, x[:5], []cpu.Term{{A: x, B: x, K: 4}})
		},
	} {
		func() {
			defer func() { test.Equal(t, fmt.Sprint(recover()), says) }()
			call()
		}()
	}
}
