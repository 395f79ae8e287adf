package nn

import (
	"fmt"

	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// An Activation is applied to each element of a hidden layer.
type Activation uint8

const (
	Tanh Activation = 1 + iota
	ReLU
)

// An MLP is a row of linear layers, an activation behind each: the trunk of a network, to which heads are added. Without layers it
// is the identity.
type MLP[T Float] struct {
	In, Out int // widths of a row of input and of output

	layers []*Linear[T]
	act    Activation
}

// NewMLP declares a trunk with the given widths of hidden layers in p; layer i is name.i.
func NewMLP[T Float](p *Params[T], name string, in int, hidden []int, act Activation) *MLP[T] {
	m := &MLP[T]{In: in, Out: in, act: act}
	for i, width := range hidden {
		m.layers = append(m.layers, NewLinear(p, fmt.Sprintf("%s.%d", name, i), m.Out, width))
		m.Out = width
	}
	return m
}

// Init initialises every layer with the given gain.
func (m *MLP[T]) Init(seed uint64, gain float64) {
	for _, l := range m.layers {
		l.Init(seed, gain)
	}
}

// Empty reports whether the MLP has no layers.
func (m *MLP[T]) Empty() bool { return len(m.layers) == 0 }

// An MLPWork holds the activations of one user of an MLP, for batches up to a fixed number of rows.
type MLPWork[T Float] struct {
	y       [][]T // what each layer gave, after the activation
	dy      [][]T // the derivatives by them
	scratch []T
}

// NewWork returns a work for at most maxRows rows.
func (m *MLP[T]) NewWork(maxRows int) *MLPWork[T] {
	w := new(MLPWork[T])
	for _, l := range m.layers {
		w.y = append(w.y, Vector[T](maxRows*l.Out))
		w.dy = append(w.dy, Vector[T](maxRows*l.Out))
		if l.In*l.Out > len(w.scratch) {
			w.scratch = Vector[T](l.In * l.Out)
		}
	}
	return w
}

// Forward returns the output [n,Out] for x, [n,In]; it is w's, or x itself when there are no layers. x must not change before Backward.
func (m *MLP[T]) Forward(w *MLPWork[T], x []T, n int) []T {
	for i, l := range m.layers {
		y := w.y[i][:n*l.Out]
		l.Forward(y, x, n)
		activate(m.act, y)
		x = y
	}
	return x
}

// OutGrad returns where Backward expects the derivative by the output, [n,Out]; nil without layers.
func (m *MLP[T]) OutGrad(w *MLPWork[T], n int) []T {
	if m.Empty() {
		return nil
	}
	return w.dy[len(m.layers)-1][:n*m.Out]
}

// Backward adds the gradients of the last Forward on w, given OutGrad, which it overwrites, and calls ready, when not nil, as each
// layer's are complete, the last layer's first. Unless it is nil, dx, [n,In], is set to the derivative by x. An MLP without layers does
// nothing.
func (m *MLP[T]) Backward(w *MLPWork[T], dx, x []T, n int, ready func(lo, hi int)) {
	for i := len(m.layers) - 1; i >= 0; i-- {
		l := m.layers[i]
		dy := w.dy[i][:n*l.Out]
		activateGrad(m.act, dy, w.y[i][:n*l.Out])
		if i > 0 {
			below := m.layers[i-1].Out
			l.Backward(w.dy[i-1][:n*below], w.y[i-1][:n*below], dy, n, false, w.scratch)
		} else {
			l.Backward(dx, x, dy, n, false, w.scratch)
		}
		if ready != nil {
			ready(l.Range())
		}
	}
}

// InputGrad sets dx, [n,In-first], to the derivative by the columns of the last Forward's x from first on, given OutGrad, which it overwrites. The
// gradients of the parameters stay as they are. An MLP without layers does nothing.
func (m *MLP[T]) InputGrad(w *MLPWork[T], dx []T, n, first int) {
	for i := len(m.layers) - 1; i >= 0; i-- {
		l := m.layers[i]
		dy := w.dy[i][:n*l.Out]
		activateGrad(m.act, dy, w.y[i][:n*l.Out])
		if i > 0 {
			l.InputGrad(w.dy[i-1], dy, n, 0, w.scratch)
		} else {
			l.InputGrad(dx, dy, n, first, w.scratch)
		}
	}
}

// activate replaces y by f(y).
func activate[T Float](f Activation, y []T) {
	switch f {
	case Tanh:
		kernel.Tanh(y, y)
	case ReLU:
		kernel.Relu(y, y)
	default:
		panic(fmt.Sprintf("nn: no such activation %d", f))
	}
}

// activateGrad replaces dy, the derivative by y = f(z), by that by z.
func activateGrad[T Float](f Activation, dy, y []T) {
	switch f {
	case Tanh:
		kernel.TanhGrad(dy, dy, y)
	case ReLU:
		kernel.ReluGrad(dy, dy, y)
	default:
		panic(fmt.Sprintf("nn: no such activation %d", f))
	}
}
