package lm

import (
	"sync"

	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// A Term is one product in the sum of Ops.Product.
type Term = kernel.Term

// A team is the Ops of a Work on a CPU: package kernel, on one or several goroutines. Each element is computed by one
// member, so the number of members does not change bits.
type team struct {
	heads   int
	members []*member // the first member works in the caller's goroutine
	job     job
	busy    sync.WaitGroup // members that have not finished the job
	alive   sync.WaitGroup // goroutines of the other members

	args  productArgs  // arguments of Product or Gradient
	gates [4][]float32 // arguments of SwiGLU or SwiGLUGrad

	attention *Attention // argument of Attend or AttendGrad
}

// A job computes the part with the given index, out of count parts of a result, with the memory of member m.
type job func(t *team, index, count int, m *member)

// A member computes one part of each job, with memory of its own.
type member struct {
	x     *kernel.Multiplier
	tiles tiles
	start chan struct{} // nil for the first member
}

// productArgs are the arguments of a product, or of a gradient.
type productArgs struct {
	c, initial   []float32
	m, n, blocks int
	terms        [3]Term
	a, b         []float32
	k            int
}

// Products of at least minSharedOps operations are split among the members. One core needs about 20 µs for this number
// of operations.
const minSharedOps = 2 << 20

func newTeam(heads int) *team { return &team{heads: heads, members: []*member{newMember(heads)}} }

func newMember(heads int) *member {
	m := &member{x: kernel.NewMultiplier()}
	for i := range m.tiles.few {
		m.tiles.few[i] = make([]float32, heads)
	}
	return m
}

// SetThreads makes n goroutines compute each pass; a new Work has 1. The goroutines live until the next
// call, so call SetThreads(1) when the Work is no longer used. n does not change the bits of results.
func (w *Work) SetThreads(n int) {
	t := w.team
	for _, m := range t.members[1:] {
		close(m.start)
	}
	t.alive.Wait()
	t.members = t.members[:1]
	for index := 1; index < n; index++ {
		m := newMember(t.heads)
		m.start = make(chan struct{})
		t.members = append(t.members, m)
		t.alive.Go(func() {
			for range m.start {
				t.job(t, index, len(t.members), m)
				t.busy.Done()
			}
		})
	}
}

// run runs a job on all members and waits for them. If size < minSize, only the first member runs the job.
func (t *team) run(minSize, size int, job job) {
	if len(t.members) == 1 || size < minSize {
		job(t, 0, 1, t.members[0])
		return
	}
	t.job = job
	t.busy.Add(len(t.members) - 1)
	for _, m := range t.members[1:] {
		m.start <- struct{}{}
	}
	job(t, 0, len(t.members), t.members[0])
	t.busy.Wait()
}

func (t *team) Product(c []float32, m, n, blocks int, initial []float32, terms [3]Term) {
	operations := 0
	for _, x := range terms {
		operations += 2 * m * n * x.K
	}
	if len(t.members) == 1 || operations < minSharedOps { // run would do the same, after a copy of the arguments
		t.members[0].x.Product(c, m, n, blocks, initial, used(&terms)...)
		return
	}
	t.args = productArgs{c: c, initial: initial, m: m, n: n, blocks: blocks, terms: terms}
	t.run(minSharedOps, operations, (*team).productPart)
}

func (t *team) productPart(index, count int, m *member) {
	a := &t.args
	m.x.ProductPart(index, count, a.c, a.m, a.n, a.blocks, a.initial, used(&a.terms)...)
}

// used returns the terms that are not zero. They are the first ones.
func used(terms *[3]Term) []Term {
	n := len(terms)
	for n > 0 && terms[n-1].B == nil {
		n--
	}
	return terms[:n]
}

func (t *team) Gradient(c, a, b []float32, m, n, k int) {
	if len(t.members) == 1 || 2*m*n*k < minSharedOps {
		t.members[0].x.Gradient(c, a, b, m, n, k)
		return
	}
	t.args = productArgs{c: c, a: a, b: b, m: m, n: n, k: k}
	t.run(minSharedOps, 2*m*n*k, (*team).gradientPart)
}

func (t *team) gradientPart(index, count int, m *member) {
	a := &t.args
	m.x.GradientPart(index, count, a.c, a.a, a.b, a.m, a.n, a.k)
}

// An elementwise job on at least minSharedElements elements is split among the members.
const minSharedElements = 1 << 16

func (t *team) SwiGLU(act, gate, up []float32) {
	t.gates = [4][]float32{act, gate, up}
	t.run(minSharedElements, len(act), (*team).swigluPart)
}

func (t *team) swigluPart(index, count int, _ *member) {
	g := t.gatesOf(index, count)
	kernel.SwiGLU(g[0], g[1], g[2])
}

func (t *team) SwiGLUGrad(act, gate, up, dact []float32) {
	t.gates = [4][]float32{act, gate, up, dact}
	t.run(minSharedElements, len(act), (*team).swigluGradPart)
}

func (t *team) swigluGradPart(index, count int, _ *member) {
	g := t.gatesOf(index, count)
	kernel.SwiGLUGrad(g[0], g[1], g[2], g[3])
}

// gatesOf returns one part of each argument in t.gates.
func (t *team) gatesOf(index, count int) (part [4][]float32) {
	n := len(t.gates[0])
	for i, x := range t.gates {
		if x != nil {
			part[i] = x[index*n/count : (index+1)*n/count]
		}
	}
	return part
}

func (t *team) RMSNorm(y, inv, x, w []float32, m, n int, eps float64) {
	kernel.RMSNorm(y, inv, x, w, m, n, eps)
}

func (t *team) RMSNormGrad(dx, dw, dy, x, w, inv []float32, m, n, heads int, acc bool) {
	if len(dw) <= n {
		kernel.RMSNormGrad(dx, dw, dy, x, w, inv, m, n, acc)
		return
	}
	per := heads * n / len(dw) // rows of a block of heads
	for r := 0; r < m; r += per {
		lo, hi := r*n, (r+per)*n
		kernel.RMSNormGrad(dx[lo:hi], dw[r%heads/per*n:][:n], dy[lo:hi], x[lo:hi], w, inv[r:r+per], per, n, acc)
	}
}

func (t *team) Rotate(q, keys, cos, sin []float32, rows, heads, keyHeads, half int, scale float32, inverse bool) {
	kernel.Rotate(q, cos, sin, rows, heads, half, scale, inverse)
	kernel.Rotate(keys, cos, sin, rows, keyHeads, half, 1, inverse)
}

func (t *team) Embed(x, table []float32, ids []int32, width int, transposed bool) {
	vocabulary := len(table) / width
	for i, id := range ids {
		if row := x[i*width : (i+1)*width]; id >= 0 && !transposed {
			copy(row, table[int(id)*width:])
		} else if id >= 0 {
			for j := range row {
				row[j] = table[j*vocabulary+int(id)]
			}
		}
	}
}

func (t *team) AddEmbeddings(grad, x []float32, ids []int32, width int) {
	vocabulary := len(grad) / width
	for i, id := range ids {
		for j, g := range x[i*width : (i+1)*width] {
			grad[j*vocabulary+int(id)] += g
		}
	}
}
