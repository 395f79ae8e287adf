package lm

// A linear computes y = x·W + b. If it has an adapter, it adds the product of the adapter to y.
type linear struct {
	m          *Model
	in, out    int // sizes of this part
	w, b       weight
	bias       bool
	over, back sum // how forward sums over inputs, and how the backward pass sums over outputs
	adapter    *adapter
}

// A sum describes how a summation is split into blocks: see Ops.Product. A width of 0 means one block.
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

// newLinear declares the weights of a product. inputs and outputs are the sizes in the whole model.
func (m *Model) newLinear(name string, inputs, outputs int, bias bool, by cut) linear {
	l := linear{m: m, bias: bias}
	l.cut(by, inputs, outputs)
	axes := [...]int{uncut: -1, byRows: 0, byColumns: 1}
	l.w = m.declare(name+".weight", true, normal, axes[by], inputs, outputs)
	if bias {
		l.b = m.declare(name+".bias", false, zeros, axes[by]-1, outputs)
	}
	l.adapt(name, by, inputs, outputs)
	return l
}

// cut sets the sizes and sums of l. inputs and outputs are the sizes in the whole model.
func (l *linear) cut(by cut, inputs, outputs int) {
	m := l.m
	l.in, l.out = inputs, outputs
	l.over, l.back = sum{blocks: 1}, sum{blocks: m.blocks, width: m.Config.blockWidth(outputs)}
	switch by {
	case byRows:
		l.in, l.over, l.back = m.size(inputs), m.split(inputs), sum{blocks: 1}
	case byColumns:
		l.out, l.back = m.size(outputs), m.split(outputs)
	}
}

// size returns the length of this part's slice of an axis of n elements.
func (m *Model) size(n int) int {
	s := m.Config.slice(m.part, 0, n)
	return s.To - s.From
}

// split describes a sum over n elements that the tensor-parallel ranks share.
func (m *Model) split(n int) sum {
	return sum{blocks: m.own, width: m.Config.blockWidth(n), shared: m.part.Size > 1}
}

// forward computes the output [n,out] from x [n,in]. It sets y to the output, plus from unless from is nil. from may be
// y.
func (l *linear) forward(w *Work, y, x []float32, n int, from []float32) {
	y, x = y[:n*l.out], x[:n*l.in]
	term := [3]Term{{A: x, B: l.w.data(), K: l.in, Width: l.over.width}}
	var bias []float32
	if l.bias {
		bias = l.b.data()
	}
	if l.over.shared {
		to := y
		if from != nil {
			to = w.partial[:n*l.out]
		}
		w.ops.Product(to, n, l.out, l.over.blocks, nil, term)
		w.sum(to)
		if from != nil {
			copy(y, from)
			w.base.Axpy(y, 1, to)
		}
	} else if from != nil {
		w.ops.Product(y, n, l.out, l.over.blocks, from[:n*l.out], term)
	} else {
		w.ops.Product(y, n, l.out, l.over.blocks, bias, term)
		bias = nil
	}
	if bias != nil {
		w.base.AddColumns(y, l.out, bias, 0, l.out, n)
	}
	if a := l.adapter; a != nil {
		low := w.low[:n*a.rank]
		a.down(w, low, x, n)
		w.ops.Product(y, n, l.out, 1, y, [3]Term{{A: low, B: a.b(), K: a.rank}})
	}
}

// gradient adds to the gradients of the weights. x [n,in] is the input, and dy [n,out] is the gradient with respect to
// the output. With an adapter, w.low [n,rank] is the result of lowGrad.
func (l *linear) gradient(w *Work, x, dy []float32, n int) {
	x, dy = x[:n*l.in], dy[:n*l.out]
	if g := l.w.grad(); g != nil {
		w.ops.Gradient(g, x, dy, l.in, l.out, n)
	}
	if l.bias {
		if g := l.b.grad(); g != nil {
			w.base.ColSum(g, dy, n, l.out, true)
		}
	}
	if a := l.adapter; a != nil {
		low, low2 := w.low[:n*a.rank], w.low2[:n*a.rank]
		a.down(w, low2, x, n)
		w.ops.Gradient(a.m.Params.GradOf(a.fieldB), low2, dy, a.rank, l.out, n)
		w.ops.Gradient(a.m.Params.GradOf(a.fieldA), x, low, l.in, a.rank, n)
	}
}

// lowGrad sets w.low [n,rank] to the gradient with respect to x·A of the adapter, and returns it. dy is [n,out].
func (l *linear) lowGrad(w *Work, dy []float32, n int) []float32 {
	a := l.adapter
	low := w.low[:n*a.rank]
	w.ops.Product(low, n, a.rank, l.back.blocks, nil,
		[3]Term{{A: dy, B: a.b(), K: l.out, Width: l.back.width, Transposed: true}})
	if l.back.shared {
		w.sum(low)
	}
	w.base.Scale(low, a.scale)
	return low
}

// A derivative holds a linear l, and dy, the gradient of the loss with respect to the output of l.
type derivative struct {
	l  *linear
	dy []float32
}

// inputGrad sets dx [n,in] to the gradient of the loss with respect to x, the common input of up to three linears.
// Unless x is nil, inputGrad also adds to the gradients of the linears' weights. If x is nil, there is one linear, and
// its method gradient can follow.
func (w *Work) inputGrad(dx, x []float32, n int, derivatives ...derivative) {
	var terms [3]Term
	for i, d := range derivatives {
		l := d.l
		terms[i] = Term{A: d.dy[:n*l.out], B: l.w.data(), K: l.out, Width: l.back.width, Transposed: true}
	}
	first := derivatives[0].l
	dx = dx[:n*first.in]
	w.ops.Product(dx, n, first.in, first.back.blocks, nil, terms)
	if first.back.shared {
		w.sum(dx)
	}
	for i, d := range derivatives {
		if a := d.l.adapter; a != nil {
			low := d.l.lowGrad(w, terms[i].A, n)
			w.ops.Product(dx, n, d.l.in, 1, dx, [3]Term{{A: low, B: a.a(), K: a.rank, Transposed: true}})
		}
		if x != nil {
			d.l.gradient(w, x, d.dy, n)
		}
	}
}
