package nn

// A RecurrentCell is a GRU or an LSTM. It reads sequences step by step, and passes a state from step to step:
//
//	h_t, c_t = cell(x_t·W + b, h_{t-1}·U + d, h_{t-1}, c_{t-1}),   y_t = h_t
//
// with W [In, G·Out] and U [Out, G·Out]. NewGRU and NewLSTM define G, c and the cell. One matrix product handles the
// inputs of all steps, and one product per step handles the states. Rows are in the order of steps: row t·n + i is
// step t of sequence i.
type RecurrentCell[T Float] struct {
	In, Out int // widths of a row of input and of output
	State   int // width of a row of state: h, then c

	input, hidden *Linear[T]
	cell          Cell
}

// A Cell is the kind of a recurrent cell: the function that computes one step of a row. σ is the logistic function.
type Cell uint8

const (
	// GRUCell is the cell of Cho et al. 2014, arXiv:1406.1078. But it applies the reset gate after the product h·U, so
	// that one product is enough. a = x·W + b and u = h·U + d have columns for the gates r and z and for the candidate
	// g:
	//
	//	r = σ(a_r + u_r),   z = σ(a_z + u_z),   g = tanh(a_g + r·u_g),   h' = (1-z)·g + z·h
	GRUCell Cell = iota
	// LSTMCell is the cell of Hochreiter and Schmidhuber 1997 with the forget gate of Gers et al. 2000. s = x·W + b +
	// h·U + d has columns for the gates i, f and o, and for the candidate g:
	//
	//	i, f, o = σ(s_i), σ(s_f), σ(s_o),   g = tanh(s_g),   c' = f·c + i·g,   h' = o·tanh(c')
	LSTMCell
)

// A CellState is the state of some rows, or the gradient of this state.
type CellState[T Float] struct{ H, C []T } // C is empty if the output is the whole state

// NewGRU declares a gated recurrent unit in p: the fields name.input.* and name.hidden.*. Its output is its whole
// state.
func NewGRU[T Float](p *Params[T], name string, in, out int) *RecurrentCell[T] {
	return newRecurrent(p, name, in, out, 3, out, GRUCell)
}

// NewLSTM declares a long short-term memory in p: the fields name.input.* and name.hidden.*. Its state is its output h
// and the cell c.
func NewLSTM[T Float](p *Params[T], name string, in, out int) *RecurrentCell[T] {
	return newRecurrent(p, name, in, out, 4, 2*out, LSTMCell)
}

// newRecurrent declares a layer in p: name.input and name.hidden. Both products have gates·out columns.
func newRecurrent[T Float](p *Params[T], name string, in, out, gates, state int, c Cell) *RecurrentCell[T] {
	return &RecurrentCell[T]{
		In: in, Out: out, State: state, cell: c,
		input: NewLinear(p, name+".input", in, gates*out), hidden: NewLinear(p, name+".hidden", out, gates*out),
	}
}

// Init draws orthogonal weights, W and U, and sets the biases to 0.
func (l *RecurrentCell[T]) Init(seed uint64) {
	l.input.Init(seed, 1)
	l.hidden.Init(seed, 1)
}

// A RecurrentWork holds the activations of one user of a RecurrentCell, for batches up to a fixed number of
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

// NewWork returns working memory for at most maxRows rows. Each sequence has a row for each step.
func (l *RecurrentCell[T]) NewWork(maxRows int) *RecurrentWork[T] {
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
func (l *RecurrentCell[T]) Forward(w *RecurrentWork[T], nextState, x, state []T, begins []byte, rows, n int) []T {
	w.x, w.begins, w.rows, w.n = x, begins, rows, n
	o, hidden := l.input.p.Ops(), l.State-l.Out
	l.input.Forward(w.in, x, rows)
	for lo := 0; lo < rows; lo += n {
		prev, next := l.states(w.prevH, w.prevC, lo, n), l.states(w.h, w.c, lo, n)
		if lo > 0 {
			before := l.states(w.h, w.c, lo-n, n)
			copy(prev.H, before.H)
			copy(prev.C, before.C)
		} else if o.CopyColumns(prev.H, l.Out, state, l.State, l.Out, n); hidden > 0 {
			o.CopyColumns(prev.C, hidden, state[l.Out:], l.State, hidden, n)
		}
		w.clearBegun(prev, lo)
		l.hidden.Forward(w.rec[lo*l.hidden.Out:], prev.H, n)
		o.Cell(l.cell, next, prev, l.wide(w.gates, lo, n), l.wide(w.in, lo, n), l.wide(w.rec, lo, n), n)
	}
	last := l.states(w.h, w.c, rows-n, n)
	if o.CopyColumns(nextState, l.State, last.H, l.Out, l.Out, n); hidden > 0 {
		o.CopyColumns(nextState[l.Out:], l.State, last.C, hidden, hidden, n)
	}
	return w.h[:rows*l.Out]
}

// clearBegun sets the state of a sequence to 0 if an episode begins at its step. s holds the states of all sequences
// before the step whose rows begin at lo.
func (w *RecurrentWork[T]) clearBegun(s CellState[T], lo int) {
	if w.begins == nil {
		return
	}
	for i, begins := range w.begins[lo : lo+w.n] {
		if begins != 0 {
			row := s.row(i, len(s.H)/w.n)
			clear(row.H)
			clear(row.C)
		}
	}
}

// Backward adds the gradients of the last Forward on w. dy, [rows,Out], is the gradient of the output. Backward goes
// back through all steps to the beginning of each episode or sequence. Unless dx, [rows,In], is nil, Backward sets dx
// to the gradient of x.
func (l *RecurrentCell[T]) Backward(w *RecurrentWork[T], dx, dy []T) {
	o, n, width := l.input.p.Ops(), w.n, l.hidden.Out
	ut := w.scratch[:l.Out*width]
	o.Transpose(ut, l.hidden.Weight(), l.Out, width, 1)
	d := l.states(w.dh, w.dc, 0, n)
	clear(d.H)
	clear(d.C)
	for lo := w.rows - n; lo >= 0; lo -= n {
		o.Axpy(d.H, 1, dy[lo*l.Out:(lo+n)*l.Out])
		rec := l.wide(w.rec, lo, n)
		o.CellGrad(l.cell, d, l.states(w.h, w.c, lo, n), l.states(w.prevH, w.prevC, lo, n), l.wide(w.gates, lo, n),
			l.wide(w.in, lo, n), rec, n)
		if lo == 0 {
			break // no gradient flows further: the state before the first step is an input
		}
		o.Product(d.H, rec, ut, nil, n, l.Out, width, true)
		w.clearBegun(d, lo)
	}
	l.hidden.Backward(nil, w.prevH, w.rec, w.rows, false, nil)
	l.input.Backward(dx, w.x, w.in, w.rows, false, w.scratch)
}

// Range returns the part of Params.Grad that belongs to this layer.
func (l *RecurrentCell[T]) Range() (lo, hi int) {
	return l.input.p.Range(l.input.weight, l.hidden.bias)
}

// states returns n rows of a state, from row lo on.
func (l *RecurrentCell[T]) states(h, c []T, lo, n int) CellState[T] {
	hidden := l.State - l.Out
	return CellState[T]{h[lo*l.Out : (lo+n)*l.Out], c[lo*hidden : (lo+n)*hidden]}
}

// wide returns n rows of x, [rows,G·Out], from row lo on.
func (l *RecurrentCell[T]) wide(x []T, lo, n int) []T {
	return x[lo*l.hidden.Out : (lo+n)*l.hidden.Out]
}
