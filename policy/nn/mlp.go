package nn

import "fmt"

// An Activation is applied to each element of a hidden layer.
type Activation uint8

const (
	Tanh Activation = 1 + iota
	ReLU
)

// String returns the name of f.
func (f Activation) String() string {
	switch f {
	case Tanh:
		return "Tanh"
	case ReLU:
		return "ReLU"
	}
	return fmt.Sprintf("Activation(%d)", uint8(f))
}

// An MLP is a sequence of linear layers, each with an activation. AddHead adds an output layer without an activation.
// Without layers, an MLP is the identity.
type MLP[T Float] struct {
	In, Out int // widths of a row of input and of output

	layers []*Linear[T]
	norms  []*BatchRenorm[T] // before every layer, and after the last hidden layer; may be nil
	act    Activation

	head     *Linear[T] // the last of layers; nil without an output layer
	headGain float64
}

// NewMLP declares an MLP in p. hidden has the widths of the hidden layers. Layer i is name.i.
func NewMLP[T Float](p *Params[T], name string, in int, hidden []int, act Activation) *MLP[T] {
	return newMLP(p, name, in, hidden, act, false)
}

// NewNormedMLP declares an MLP of at least one hidden layer. Norm i (name.norm.i) normalises the input of layer i. A
// last norm normalises the output of the last hidden layer.
func NewNormedMLP[T Float](p *Params[T], name string, in int, hidden []int, act Activation) *MLP[T] {
	return newMLP(p, name, in, hidden, act, true)
}

func newMLP[T Float](p *Params[T], name string, in int, hidden []int, act Activation, normed bool) *MLP[T] {
	m := &MLP[T]{In: in, Out: in, act: act}
	norm := func(i int) {
		if normed {
			m.norms = append(m.norms, NewBatchRenorm(p, fmt.Sprintf("%s.norm.%d", name, i), m.Out))
		}
	}
	for i, width := range hidden {
		norm(i)
		m.layers = append(m.layers, NewLinear(p, fmt.Sprintf("%s.%d", name, i), m.Out, width))
		m.Out = width
	}
	norm(len(hidden))
	return m
}

// AddHead declares an output layer (name.head) and returns m. Init draws the weights of this layer with the given gain.
func (m *MLP[T]) AddHead(p *Params[T], name string, out int, gain float64) *MLP[T] {
	m.head, m.headGain = NewLinear(p, name+".head", m.Out, out), gain
	m.layers, m.Out = append(m.layers, m.head), out
	return m
}

// Head returns the output layer, or nil if there is none.
func (m *MLP[T]) Head() *Linear[T] { return m.head }

// hidden reports whether layer i has an activation.
func (m *MLP[T]) hidden(i int) bool { return m.layers[i] != m.head }

// Init initialises every hidden layer with the given gain, and the head with the gain of AddHead.
func (m *MLP[T]) Init(seed uint64, gain float64) {
	for _, b := range m.norms {
		b.Init()
	}
	for i, l := range m.layers {
		if m.hidden(i) {
			l.Init(seed, gain)
		} else {
			l.Init(seed, m.headGain)
		}
	}
}

// Empty reports whether the MLP has no layers.
func (m *MLP[T]) Empty() bool { return len(m.layers) == 0 }

// An MLPWork holds the activations of one user of an MLP, for batches up to a fixed number of rows.
type MLPWork[T Float] struct {
	y       [][]T // the output of each layer, after the activation
	dy      [][]T // the gradient of the output of each layer, or of the norm that follows the layer
	norms   []*BatchRenormWork[T]
	dx      []T // the gradient of the output of the first norm
	scratch []T
}

// NewWork returns working memory for at most maxRows rows.
func (m *MLP[T]) NewWork(maxRows int) *MLPWork[T] {
	w := new(MLPWork[T])
	for _, b := range m.norms {
		w.norms = append(w.norms, b.NewWork(maxRows))
	}
	if m.norms != nil {
		w.dx = Vector[T](maxRows * m.In)
	}
	for _, l := range m.layers {
		w.y = append(w.y, Vector[T](maxRows*l.Out))
		w.dy = append(w.dy, Vector[T](maxRows*l.Out))
		if l.In*l.Out > len(w.scratch) {
			w.scratch = Vector[T](l.In * l.Out)
		}
	}
	return w
}

// Forward returns the output [n,Out] for x, [n,In]. The output lies in memory of w, or is x itself if there are no
// layers. x must not change before Backward. Norms use their running statistics.
func (m *MLP[T]) Forward(w *MLPWork[T], x []T, n int) []T { return m.forward(w, x, n, false) }

// ForwardBatch is Forward, but norms use the statistics of these n rows. w keeps the statistics for AddStats.
func (m *MLP[T]) ForwardBatch(w *MLPWork[T], x []T, n int) []T { return m.forward(w, x, n, true) }

func (m *MLP[T]) forward(w *MLPWork[T], x []T, n int, batch bool) []T {
	x = m.normed(w, 0, x, n, batch)
	for i, l := range m.layers {
		y := w.y[i][:n*l.Out]
		l.Forward(y, x, n)
		if x = y; m.hidden(i) {
			l.p.Ops().Activate(m.act, y, y)
			x = m.normed(w, i+1, y, n, batch)
		}
	}
	return x
}

// normed returns the output of norm i; without norms it returns x.
func (m *MLP[T]) normed(w *MLPWork[T], i int, x []T, n int, batch bool) []T {
	if m.norms == nil {
		return x
	}
	return m.norms[i].Forward(w.norms[i], x, n, batch)
}

// OutGrad returns memory, [n,Out], for the gradient of the output. Fill it before Backward. Without layers, OutGrad
// returns nil.
func (m *MLP[T]) OutGrad(w *MLPWork[T], n int) []T {
	if m.Empty() {
		return nil
	}
	return w.dy[len(m.layers)-1][:n*m.Out]
}

// Backward adds the gradients of the last Forward on w. It reads the gradient of the output from OutGrad, and
// overwrites this memory. Unless ready is nil, Backward calls ready as soon as the gradients of a layer are complete,
// beginning with the last layer. Unless dx, [n,In], is nil, Backward sets dx to the gradient of x. An MLP without
// layers does nothing.
func (m *MLP[T]) Backward(w *MLPWork[T], dx, x []T, n int, ready func(lo, hi int)) {
	for i := len(m.layers) - 1; i >= 0; i-- {
		l := m.layers[i]
		dy := w.dy[i][:n*l.Out]
		if m.hidden(i) {
			m.normBackward(w, i+1, dy, n, ready)
			l.p.Ops().ActivateGrad(m.act, dy, dy, w.y[i][:n*l.Out])
		}
		in, below := x, dx
		if i > 0 {
			in, below = w.y[i-1][:n*l.In], w.dy[i-1][:n*l.In]
		}
		if m.norms != nil {
			in = w.norms[i].y
			if i == 0 {
				below = w.dx[:n*l.In]
			}
		}
		l.Backward(below, in, dy, n, false, w.scratch)
		if ready != nil {
			ready(l.Range())
		}
	}
	if m.norms != nil {
		m.normBackward(w, 0, w.dx[:n*m.In], n, ready)
		copy(dx, w.dx)
	}
}

// normBackward runs Backward of norm i on dy, and calls ready for the norm's range. Without norms, it does nothing.
func (m *MLP[T]) normBackward(w *MLPWork[T], i int, dy []T, n int, ready func(lo, hi int)) {
	if m.norms == nil {
		return
	}
	m.norms[i].Backward(w.norms[i], dy, n)
	if ready != nil {
		ready(m.norms[i].Range())
	}
}

// InputGrad sets dx, [n,In-first], to the gradient of the columns [first,In) of the last Forward's x. It reads the
// gradient of the output from OutGrad, and overwrites this memory. InputGrad does not change the gradients of the
// parameters. An MLP without layers does nothing. In the last Forward, norms must have used their running statistics.
func (m *MLP[T]) InputGrad(w *MLPWork[T], dx []T, n, first int) {
	for i := len(m.layers) - 1; i >= 0; i-- {
		l := m.layers[i]
		dy := w.dy[i][:n*l.Out]
		if m.hidden(i) {
			if m.norms != nil {
				m.norms[i+1].InputGrad(w.norms[i+1], dy, l.Out)
			}
			l.p.Ops().ActivateGrad(m.act, dy, dy, w.y[i][:n*l.Out])
		}
		if i > 0 {
			l.InputGrad(w.dy[i-1], dy, n, 0, w.scratch)
		} else {
			l.InputGrad(dx, dy, n, first, w.scratch)
		}
	}
	if m.norms != nil {
		m.norms[0].InputGrad(w.norms[0], dx[:n*(m.In-first)], m.In-first)
	}
}

// StatsLen returns the number of sums that AddStats needs for all norms.
func (m *MLP[T]) StatsLen() (n int) {
	for _, b := range m.norms {
		n += b.StatsLen()
	}
	return n
}

// AddStats adds the batch statistics of all norms to sums, one norm after the other; see BatchRenorm.AddStats.
func (m *MLP[T]) AddStats(sums []float64, w *MLPWork[T]) {
	for i, b := range m.norms {
		b.AddStats(sums[:b.StatsLen()], w.norms[i])
		sums = sums[b.StatsLen():]
	}
}

// MergeStats updates the running statistics of every norm with sums.
func (m *MLP[T]) MergeStats(sums []float64) {
	for _, b := range m.norms {
		b.MergeStats(sums[:b.StatsLen()])
		sums = sums[b.StatsLen():]
	}
}
