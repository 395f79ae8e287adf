package lm

import "github.com/rlinf/rlinf/policy/nn/kernel"

// A linear computes y = x·W + b, and adds the product of its adapter if it has one.
type linear struct {
	m          *Model
	in, out    int // sizes of this part
	w, b       weight
	bias       bool
	over, back sum // how forward sums over inputs, and how the backward pass sums over outputs
	adapter    *adapter
}

// A sum describes how a sum is split into blocks: see kernel.Multiplier. A width of 0 means one block.
type sum struct {
	blocks, width int
	shared        bool // other ranks compute other blocks
}

// A cut selects the axis of a matrix [in, out] that is split among the tensor-parallel ranks.
type cut uint8

const (
	uncut     cut = iota
	byRows        // each rank has some of the inputs
	byColumns     // each rank has some of the outputs
)

// newLinear declares the weights of a product. The arguments in and out are the sizes in the whole model.
func (m *Model) newLinear(name string, in, out int, bias bool, by cut) linear {
	l := linear{m: m, bias: bias}
	l.cut(by, in, out)
	axes := [...]int{uncut: -1, byRows: 0, byColumns: 1}
	l.w = m.declare(name+".weight", true, normal, axes[by], in, out)
	if bias {
		l.b = m.declare(name+".bias", false, zeros, axes[by]-1, out)
	}
	l.adapt(name, by, in, out)
	return l
}

// cut sets the sizes and sums of l. The arguments in and out are the sizes in the whole model.
func (l *linear) cut(by cut, in, out int) {
	m := l.m
	l.in, l.out = in, out
	l.over, l.back = sum{blocks: 1}, sum{blocks: m.blocks, width: m.Config.blockWidth(out)}
	switch by {
	case byRows:
		l.in, l.over, l.back = m.size(in), m.split(in), sum{blocks: 1}
	case byColumns:
		l.out, l.back = m.size(out), m.split(out)
	}
}

// size returns the length of this part's slice of an axis of n elements.
func (m *Model) size(n int) int {
	s := m.Config.slice(m.part, 0, n)
	return s.To - s.From
}

// split describes the sum over an axis of n elements that is split among the tensor-parallel ranks.
func (m *Model) split(n int) sum {
	return sum{blocks: m.own, width: m.Config.blockWidth(n), shared: m.part.Size > 1}
}

// forward computes the output [n,out] from the argument in [n,in]. It sets y to the output, or adds the output to y if
// add is true.
func (l *linear) forward(w *Work, y, in []float32, n int, add bool) {
	y, in = y[:n*l.out], in[:n*l.in]
	term := kernel.Term{A: in, B: l.w.data(), K: l.in, Width: l.over.width}
	var bias []float32
	if l.bias {
		bias = l.b.data()
	}
	if l.over.shared {
		to := y
		if add {
			to = w.partial[:n*l.out]
		}
		w.team.Product(to, n, l.out, l.over.blocks, nil, false, term)
		w.sum(to)
		if add {
			kernel.Axpy(y, 1, to)
		}
	} else if add {
		w.team.Product(y, n, l.out, l.over.blocks, nil, true, term)
	} else {
		w.team.Product(y, n, l.out, l.over.blocks, bias, false, term)
		bias = nil
	}
	if bias != nil {
		for i := range n {
			kernel.Axpy(y[i*l.out:(i+1)*l.out], 1, bias)
		}
	}
	if a := l.adapter; a != nil {
		low := w.low[:n*a.rank]
		a.down(w, low, in, n)
		w.team.Product(y, n, l.out, 1, nil, true, kernel.Term{A: low, B: a.b(), K: a.rank})
	}
}

// gradient adds to the gradients of the weights. The argument in [n,in] is the input, and dy [n,out] is the gradient
// with respect to the output. With an adapter, gradient sets w.low [n,rank] to the gradient with respect to x·A.
func (l *linear) gradient(w *Work, in, dy []float32, n int) {
	in, dy = in[:n*l.in], dy[:n*l.out]
	if g := l.w.grad(); g != nil {
		w.team.Gradient(g, in, dy, l.in, l.out, n)
	}
	if l.bias {
		if g := l.b.grad(); g != nil {
			kernel.ColSum(g, dy, n, l.out, true)
		}
	}
	if a := l.adapter; a != nil {
		low, low2 := w.low[:n*a.rank], w.low2[:n*a.rank]
		a.down(w, low2, in, n)
		w.team.Gradient(a.m.Params.GradOf(a.fieldB), low2, dy, a.rank, l.out, n)
		w.team.Product(low, n, a.rank, l.back.blocks, nil, false,
			kernel.Term{A: dy, B: a.b(), K: l.out, Width: l.back.width, Transposed: true})
		if l.back.shared {
			w.sum(low)
		}
		kernel.Scale(low, a.scale)
		w.team.Gradient(a.m.Params.GradOf(a.fieldA), in, low, l.in, a.rank, n)
	}
}

// A derivative is a linear l with dy, the gradient of the loss with respect to the output of l.
type derivative struct {
	l  *linear
	dy []float32
}

// inputGrad sets dx [n,in] to the gradient of the loss with respect to the common input of up to three linears. The
// argument in is that input. inputGrad also adds to the gradients of the linears' weights.
func (w *Work) inputGrad(dx, in []float32, n int, from ...derivative) {
	var terms [3]kernel.Term
	for i, d := range from {
		l := d.l
		terms[i] = kernel.Term{A: d.dy[:n*l.out], B: l.w.data(), K: l.out, Width: l.back.width, Transposed: true}
	}
	first := from[0].l
	dx = dx[:n*first.in]
	w.team.Product(dx, n, first.in, first.back.blocks, nil, false, terms[:len(from)]...)
	if first.back.shared {
		w.sum(dx)
	}
	for _, d := range from {
		d.l.gradient(w, in, d.dy, n)
		if a := d.l.adapter; a != nil {
			w.team.Product(dx, n, d.l.in, 1, nil, true, kernel.Term{A: w.low[:n*a.rank], B: a.a(), K: a.rank,
				Transposed: true})
		}
	}
}
