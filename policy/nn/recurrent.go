package nn

import "github.com/rlinf/rlinf/policy/nn/kernel"

// A Recurrent is a GRU or an LSTM. It reads sequences step by step, and passes a state from step to step:
//
//	h_t, c_t = cell(x_t·W + b, h_{t-1}·U + d, h_{t-1}, c_{t-1}),   y_t = h_t
//
// with W [In, G·Out] and U [Out, G·Out]. NewGRU and NewLSTM define G, c and the cell. One matrix product handles the
// inputs of all steps, and one product per step handles the states. Rows are in the order of steps: row t·n + i is
// step t of sequence i.
type Recurrent[T Float] struct {
	In, Out int // widths of a row of input and of output
	State   int // width of a row of state: h, then c

	input, hidden *Linear[T]
	cell          cell[T]
}

// A cell computes one step of a row from the products.
type cell[T Float] interface {
	// Forward computes the state next from the state prev, xw = x·W + b and hu = h·U + d. It sets gates for Backward.
	Forward(next, prev cellState[T], gates, xw, hu []T)
	// xw and hu have the values that Forward used. Backward replaces both with their gradients. It also replaces d, the
	// gradient of next, with the gradient of prev, except for the part that passes through hu.
	Backward(d, next, prev cellState[T], gates, xw, hu []T)
}

// A cellState is the state of one row, or the gradient of this state.
type cellState[T Float] struct{ h, c []T } // c is empty if the output is the whole state

// newRecurrent declares a layer in p: name.input and name.hidden. Both products have gates·out columns.
func newRecurrent[T Float](p *Params[T], name string, in, out, gates, state int, c cell[T]) *Recurrent[T] {
	return &Recurrent[T]{
		In: in, Out: out, State: state, cell: c,
		input: NewLinear(p, name+".input", in, gates*out), hidden: NewLinear(p, name+".hidden", out, gates*out),
	}
}

// Init draws orthogonal weights, W and U, and sets the biases to 0.
func (l *Recurrent[T]) Init(seed uint64) {
	l.input.Init(seed, 1)
	l.hidden.Init(seed, 1)
}

// A RecurrentWork holds the activations of one user of a Recurrent, for batches up to a fixed number of
// rows.
type RecurrentWork[T Float] struct {
	h, c         []T // [rows,Out], [rows,State-Out]: the state after each step
	prevH, prevC []T // [rows,Out], [rows,State-Out]: the state before each step
	in, rec      []T // [rows,G·Out]: the products; after Backward the gradients of the products
	gates        []T // [rows,G·Out]
	dh, dc       []T // [n,Out], [n,State-Out]: the gradient of the state between two steps
	scratch      []T

	x       []T // this and the following fields: arguments of the last Forward
	begins  []byte
	rows, n int
}

// NewWork returns working memory for at most maxRows rows. The number of rows is steps × sequences.
func (l *Recurrent[T]) NewWork(maxRows int) *RecurrentWork[T] {
	of := func(width int) []T { return Vector[T](maxRows * width) }
	hidden, gates := l.State-l.Out, l.input.Out
	return &RecurrentWork[T]{
		h: of(l.Out), c: of(hidden), prevH: of(l.Out), prevC: of(hidden), in: of(gates), rec: of(gates),
		gates: of(gates), dh: of(l.Out), dc: of(hidden), scratch: Vector[T](max(l.In, l.Out) * gates),
	}
}

// Forward reads x, [rows,In]: rows/n steps of n sequences. It returns the outputs [rows,Out], in memory of w. state,
// [n,State], has the states before the first step. Forward sets nextState, [n,State], to the states after the last
// step; state and nextState may be the same slice. If begins[i] is not 0, Forward sets the state before row i to 0. A
// nil begins means 0 everywhere. x and begins must not change before Backward.
func (l *Recurrent[T]) Forward(w *RecurrentWork[T], nextState, x, state []T, begins []byte, rows, n int) []T {
	w.x, w.begins, w.rows, w.n = x, begins, rows, n
	l.input.Forward(w.in, x, rows)
	for lo := 0; lo < rows; lo += n {
		for i := lo; i < lo+n; i++ {
			prev := l.row(w.prevH, w.prevC, i)
			switch {
			case begins != nil && begins[i] != 0:
				clear(prev.h)
				clear(prev.c)
			case lo == 0:
				copy(prev.h, state[i*l.State:])
				copy(prev.c, state[i*l.State+l.Out:])
			default:
				before := l.row(w.h, w.c, i-n)
				copy(prev.h, before.h)
				copy(prev.c, before.c)
			}
		}
		l.hidden.Forward(w.rec[lo*l.hidden.Out:], w.prevH[lo*l.Out:], n)
		for i := lo; i < lo+n; i++ {
			l.cell.Forward(l.row(w.h, w.c, i), l.row(w.prevH, w.prevC, i), l.wideRow(w.gates, i), l.wideRow(w.in, i),
				l.wideRow(w.rec, i))
		}
	}
	for i := range n {
		last := l.row(w.h, w.c, rows-n+i)
		copy(nextState[i*l.State:], last.h)
		copy(nextState[i*l.State+l.Out:], last.c)
	}
	return w.h[:rows*l.Out]
}

// Backward adds the gradients of the last Forward on w. dy, [rows,Out], is the gradient of the output. Backward goes
// back through all steps to the beginning of each episode or sequence. Unless dx, [rows,In], is nil, Backward sets dx
// to the gradient of x.
func (l *Recurrent[T]) Backward(w *RecurrentWork[T], dx, dy []T) {
	n, wide := w.n, l.hidden.Out
	ut := w.scratch[:l.Out*wide]
	kernel.Transpose(ut, l.hidden.Weight(), l.Out, wide)
	dh, dc := w.dh[:n*l.Out], w.dc[:n*(l.State-l.Out)]
	clear(dh)
	clear(dc)
	for lo := w.rows - n; lo >= 0; lo -= n {
		kernel.Axpy(dh, 1, dy[lo*l.Out:(lo+n)*l.Out])
		for i := lo; i < lo+n; i++ {
			l.cell.Backward(l.row(dh, dc, i-lo), l.row(w.h, w.c, i), l.row(w.prevH, w.prevC, i), l.wideRow(w.gates, i),
				l.wideRow(w.in, i), l.wideRow(w.rec, i))
		}
		if lo == 0 {
			break // the state before the first step is an input
		}
		l.hidden.p.products.Gemm(dh, w.rec[lo*wide:(lo+n)*wide], ut, n, l.Out, wide, true)
		for i := lo; i < lo+n; i++ {
			if w.begins != nil && w.begins[i] != 0 {
				d := l.row(dh, dc, i-lo)
				clear(d.h)
				clear(d.c)
			}
		}
	}
	l.hidden.Backward(nil, w.prevH, w.rec, w.rows, false, nil)
	l.input.Backward(dx, w.x, w.in, w.rows, false, w.scratch)
}

// Range returns the part of Params.Grad that belongs to this layer.
func (l *Recurrent[T]) Range() (lo, hi int) { return l.input.p.Range(l.input.weight, l.hidden.bias) }

// row returns row i of a state.
func (l *Recurrent[T]) row(h, c []T, i int) cellState[T] {
	hidden := l.State - l.Out
	return cellState[T]{h[i*l.Out : (i+1)*l.Out], c[i*hidden : (i+1)*hidden]}
}

// wideRow returns row i of x, [rows,G·Out].
func (l *Recurrent[T]) wideRow(x []T, i int) []T { return x[i*l.hidden.Out : (i+1)*l.hidden.Out] }

// sigmoid replaces each x with 1/(1+e^-x) = ½ + ½ tanh(x/2).
func sigmoid[T Float](x []T) {
	kernel.Scale(x, 0.5)
	kernel.Tanh(x, x)
	for i, v := range x {
		x[i] = 0.5 + 0.5*v
	}
}
