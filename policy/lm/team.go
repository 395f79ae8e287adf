package lm

import (
	"sync"

	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// A team computes the products and the attention of a Work on one or several goroutines. Each element is computed by
// one member, so the number of members does not change bits.
type team struct {
	w       *Work
	members []*member // the first member works in the caller's goroutine
	job     job
	busy    sync.WaitGroup // members that have not finished the job
	alive   sync.WaitGroup // goroutines of the other members

	args  productArgs  // arguments of Product or Gradient
	gates [4][]float32 // arguments of SwiGLU or SwiGLUGrad
}

// A job is a method of Work. It computes the part with the given index, out of count parts of a result, with the memory
// of member m.
type job func(w *Work, index, count int, m *member)

// A member computes one part of each job, with memory of its own.
type member struct {
	x     *kernel.Multiplier
	tiles tiles
	start chan struct{} // nil for the first member
}

// productArgs are the arguments of a product, or of a gradient.
type productArgs struct {
	c, bias      []float32
	m, n, blocks int
	acc          bool
	terms        [3]kernel.Term
	count        int // number of terms
	a, b         []float32
	k            int
}

// Products of at least minSharedOps operations are split among the members. One core needs about 20 µs for this number
// of operations.
const minSharedOps = 2 << 20

func newTeam(w *Work) *team {
	return &team{w: w, members: []*member{newMember(w.m.local.HeadDim)}}
}

func newMember(headDim int) *member {
	return &member{x: kernel.NewMultiplier(), tiles: tiles{acc: make([]float32, tileQueries*headDim)}}
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
		m := newMember(w.m.local.HeadDim)
		m.start = make(chan struct{})
		t.members = append(t.members, m)
		t.alive.Go(func() {
			for range m.start {
				t.job(w, index, len(t.members), m)
				t.busy.Done()
			}
		})
	}
}

// run runs a job on all members and waits for them. If size < minSize, only the first member runs the job.
func (t *team) run(minSize, size int, job job) {
	if len(t.members) == 1 || size < minSize {
		job(t.w, 0, 1, t.members[0])
		return
	}
	t.job = job
	t.busy.Add(len(t.members) - 1)
	for _, m := range t.members[1:] {
		m.start <- struct{}{}
	}
	job(t.w, 0, len(t.members), t.members[0])
	t.busy.Wait()
}

// Product runs kernel.Multiplier.Product on all members. It takes at most three terms.
func (t *team) Product(c []float32, m, n, blocks int, bias []float32, acc bool, terms ...kernel.Term) {
	operations := 0
	for _, x := range terms {
		operations += 2 * m * n * x.K
	}
	if len(t.members) == 1 || operations < minSharedOps { // run would do the same, after a copy of the arguments
		t.members[0].x.Product(c, m, n, blocks, bias, acc, terms...)
		return
	}
	t.args = productArgs{c: c, bias: bias, m: m, n: n, blocks: blocks, acc: acc, count: len(terms)}
	copy(t.args.terms[:], terms)
	t.run(minSharedOps, operations, (*Work).productPart)
}

func (w *Work) productPart(index, count int, m *member) {
	a := &w.team.args
	m.x.ProductPart(index, count, a.c, a.m, a.n, a.blocks, a.bias, a.acc, a.terms[:a.count]...)
}

// Gradient runs kernel.Multiplier.Gradient on all members.
func (t *team) Gradient(c, a, b []float32, m, n, k int) {
	if len(t.members) == 1 || 2*m*n*k < minSharedOps {
		t.members[0].x.Gradient(c, a, b, m, n, k)
		return
	}
	t.args = productArgs{c: c, a: a, b: b, m: m, n: n, k: k}
	t.run(minSharedOps, 2*m*n*k, (*Work).gradientPart)
}

func (w *Work) gradientPart(index, count int, m *member) {
	a := &w.team.args
	m.x.GradientPart(index, count, a.c, a.a, a.b, a.m, a.n, a.k)
}

// An elementwise job on at least minSharedElements elements is split among the members.
const minSharedElements = 1 << 16

// SwiGLU runs kernel.SwiGLU on all members.
func (t *team) SwiGLU(act, gate, up []float32) {
	t.gates = [4][]float32{act, gate, up}
	t.run(minSharedElements, len(act), (*Work).swigluPart)
}

func (w *Work) swigluPart(index, count int, _ *member) {
	g := w.team.gatesOf(index, count)
	kernel.SwiGLU(g[0], g[1], g[2])
}

// SwiGLUGrad runs kernel.SwiGLUGrad on all members.
func (t *team) SwiGLUGrad(act, gate, up, dact []float32) {
	t.gates = [4][]float32{act, gate, up, dact}
	t.run(minSharedElements, len(act), (*Work).swigluGradPart)
}

func (w *Work) swigluGradPart(index, count int, _ *member) {
	g := w.team.gatesOf(index, count)
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
