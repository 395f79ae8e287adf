package lm

import "github.com/rlinf/rlinf/policy/nn/kernel"

// A linear is y = x·W + b, plus the product of its adapter if it has one.
type linear struct {
	m       *Model
	in, out int
	w, b    weight
	bias    bool
	rows    bool // the summed axis is split into blocks: see kernel.Multiplier
	adapter *adapter
}

func (m *Model) newLinear(name string, in, out int, bias, rows bool) linear {
	l := linear{m: m, in: in, out: out, bias: bias, rows: rows, w: m.declare(name+".weight", true, normal, in, out)}
	if bias {
		l.b = m.declare(name+".bias", false, zeros, out)
	}
	l.adapt(name)
	return l
}

// blocks returns the number of blocks in the sums of the forward pass, and in those of the
// derivative by the input.
func (l *linear) blocks() (forward, backward int) {
	if l.rows {
		return l.m.blocks, 1
	}
	return 1, l.m.blocks
}

// forward sets y [n,out] to the product for in [n,in], or adds it to y if add. low is scratch of
// n·rank elements if the model has adapters.
func (l *linear) forward(x *team, y, in, low []float32, n int, add bool) {
	blocks, _ := l.blocks()
	y, in = y[:n*l.out], in[:n*l.in]
	var bias []float32
	if l.bias && !add {
		bias = l.b.data()
	}
	x.Product(y, n, l.out, blocks, bias, add, kernel.Term{A: in, B: l.w.data(), K: l.in})
	if l.bias && add {
		b := l.b.data()
		for i := range n {
			kernel.Axpy(y[i*l.out:(i+1)*l.out], 1, b)
		}
	}
	if a := l.adapter; a != nil {
		low = low[:n*a.rank]
		a.down(x, low, in, n, blocks)
		x.Product(y, n, l.out, 1, nil, true, kernel.Term{A: low, B: a.b(), K: a.rank})
	}
}

// gradient adds to the gradients of the weights. in is the input [n,in], and dy the derivative by
// the output [n,out]. With an adapter, it sets low [n,rank] to the derivative by the adapter's
// inner values.
func (l *linear) gradient(x *team, in, dy, low, low2 []float32, n int) {
	in, dy = in[:n*l.in], dy[:n*l.out]
	if g := l.w.grad(); g != nil {
		x.Gradient(g, in, dy, l.in, l.out, n)
	}
	if l.bias {
		if g := l.b.grad(); g != nil {
			kernel.ColSum(g, dy, n, l.out, true)
		}
	}
	if a := l.adapter; a != nil {
		forward, backward := l.blocks()
		low, low2 = low[:n*a.rank], low2[:n*a.rank]
		a.down(x, low2, in, n, forward)
		x.Gradient(a.m.Params.GradOf(a.fieldB), low2, dy, a.rank, l.out, n)
		x.Product(low, n, a.rank, backward, nil, false, kernel.Term{A: dy, B: a.b(), K: l.out, Transposed: true})
		kernel.Scale(low, a.scale)
		x.Gradient(a.m.Params.GradOf(a.fieldA), in, low, l.in, a.rank, n)
	}
}

// A derivative is a linear l, and the derivative dy of the loss by its output.
type derivative struct {
	l  *linear
	dy []float32
}

// inputGrad sets dx [n,in] to the derivative of the loss by in, the common input of up to three
// linears. It also adds to the gradients of the weights of these linears.
func (w *Work) inputGrad(dx, in []float32, n int, from ...derivative) {
	var terms [3]kernel.Term
	for i, d := range from {
		terms[i] = kernel.Term{A: d.dy[:n*d.l.out], B: d.l.w.data(), K: d.l.out, Transposed: true}
	}
	_, blocks := from[0].l.blocks()
	dx = dx[:n*from[0].l.in]
	w.team.Product(dx, n, from[0].l.in, blocks, nil, false, terms[:len(from)]...)
	for _, d := range from {
		d.l.gradient(w.team, in, d.dy, w.low, w.low2, n)
		if a := d.l.adapter; a != nil {
			w.team.Product(dx, n, d.l.in, 1, nil, true, kernel.Term{A: w.low[:n*a.rank], B: a.a(), K: a.rank,
				Transposed: true})
		}
	}
}
