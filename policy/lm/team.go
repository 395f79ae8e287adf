package lm

import (
	"sync"

	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// A team computes the products of a Work, and its attention, on one goroutine or on several. How
// the work is shared never changes a bit: every element is computed by one member, as always.
type team struct {
	members []*member // the first is the caller
	job     func(number, parts int, m *member)
	busy    sync.WaitGroup // members that have not finished the job
	alive   sync.WaitGroup // goroutines

	args              productArgs // of product and gradient
	product, gradient func(number, parts int, m *member)

	gates              [4][]float32 // of swiglu and swigluGrad
	swiglu, swigluGrad func(number, parts int, m *member)
}

// A member computes one part of each job, with memory of its own.
type member struct {
	x     *kernel.Multiplier
	tiles tiles
	start chan struct{} // nil of the first
}

// productArgs are the arguments of a product, or of a gradient.
type productArgs struct {
	c, bias      []float32
	m, n, blocks int
	acc          bool
	terms        [3]kernel.Term
	count        int // of terms
	a, b         []float32
	k            int
}

// sharedFrom is how many operations make it worth to share a product: what one core does in some
// 20 µs.
const sharedFrom = 2 << 20

func newTeam(headDim int) *team {
	t := &team{members: []*member{newMember(headDim)}}
	t.product = func(number, parts int, m *member) {
		a := &t.args
		m.x.ProductPart(number, parts, a.c, a.m, a.n, a.blocks, a.bias, a.acc, a.terms[:a.count]...)
	}
	t.gradient = func(number, parts int, m *member) {
		a := &t.args
		m.x.GradientPart(number, parts, a.c, a.a, a.b, a.m, a.n, a.k)
	}
	t.swiglu = func(number, parts int, _ *member) {
		g := t.gatesOf(number, parts)
		kernel.SwiGLU(g[0], g[1], g[2])
	}
	t.swigluGrad = func(number, parts int, _ *member) {
		g := t.gatesOf(number, parts)
		kernel.SwiGLUGrad(g[0], g[1], g[2], g[3])
	}
	return t
}

func newMember(headDim int) *member {
	return &member{x: kernel.NewMultiplier(), tiles: tiles{acc: make([]float32, tileQueries*headDim)}}
}

// SetThreads lets n goroutines compute each pass. They live until the next SetThreads: call
// SetThreads(1), which every Work begins with, when the Work is no longer used. The results have
// the same bits with any n.
func (w *Work) SetThreads(n int) {
	t, e := w.team, w.m.Config.HeadDim
	for _, m := range t.members[1:] {
		close(m.start)
	}
	t.alive.Wait()
	t.members = t.members[:1]
	for number := 1; number < n; number++ {
		m := newMember(e)
		m.start = make(chan struct{})
		t.members = append(t.members, m)
		t.alive.Go(func() {
			for range m.start {
				t.job(number, len(t.members), m)
				t.busy.Done()
			}
		})
	}
}

// run lets every member do its part.
func (t *team) run(job func(number, parts int, m *member)) {
	t.job = job
	t.busy.Add(len(t.members) - 1)
	for _, m := range t.members[1:] {
		m.start <- struct{}{}
	}
	job(0, len(t.members), t.members[0])
	t.busy.Wait()
}

// Product is kernel.Multiplier.Product by all members. There are at most three terms.
func (t *team) Product(c []float32, m, n, blocks int, bias []float32, acc bool, terms ...kernel.Term) {
	operations := 0
	for _, x := range terms {
		operations += 2 * m * n * x.K
	}
	if len(t.members) == 1 || operations < sharedFrom {
		t.members[0].x.Product(c, m, n, blocks, bias, acc, terms...)
		return
	}
	t.args = productArgs{c: c, bias: bias, m: m, n: n, blocks: blocks, acc: acc, count: len(terms)}
	copy(t.args.terms[:], terms)
	t.run(t.product)
}

// SwiGLU is kernel.SwiGLU by all members.
func (t *team) SwiGLU(act, gate, up []float32) {
	t.gates = [4][]float32{act, gate, up}
	t.runFrom(sharedElements, len(act), t.swiglu)
}

// SwiGLUGrad is kernel.SwiGLUGrad by all members.
func (t *team) SwiGLUGrad(act, gate, up, dact []float32) {
	t.gates = [4][]float32{act, gate, up, dact}
	t.runFrom(sharedElements, len(act), t.swigluGrad)
}

// sharedElements is how many elements make it worth to share what is done with each by itself.
const sharedElements = 1 << 16

// gatesOf returns one part of the elements.
func (t *team) gatesOf(number, parts int) (part [4][]float32) {
	n := len(t.gates[0])
	for i, x := range t.gates {
		if x != nil {
			part[i] = x[number*n/parts : (number+1)*n/parts]
		}
	}
	return part
}

// runFrom is run where there are at least so many elements, else the first member does all.
func (t *team) runFrom(least, elements int, job func(number, parts int, m *member)) {
	if len(t.members) == 1 || elements < least {
		job(0, 1, t.members[0])
		return
	}
	t.run(job)
}

// Gradient is kernel.Multiplier.Gradient by all members.
func (t *team) Gradient(c, a, b []float32, m, n, k int) {
	if len(t.members) == 1 || 2*m*n*k < sharedFrom {
		t.members[0].x.Gradient(c, a, b, m, n, k)
		return
	}
	t.args = productArgs{c: c, a: a, b: b, m: m, n: n, k: k}
	t.run(t.gradient)
}
