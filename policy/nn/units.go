package nn

import "math"

// A numbers unit reads the columns [first, first+width) of Batch.Numbers. total is the number of columns of a row.
type numbers[T Float] struct {
	p                   *Params[T]
	first, width, total int
}

func (u *numbers[T]) Init(uint64) {}

func (u *numbers[T]) NewWork(maxRows int) unitWork[T] {
	return &numbersWork[T]{u, Vector[T](maxRows * u.width)}
}

type numbersWork[T Float] struct {
	*numbers[T]
	y []T
}

func (w *numbersWork[T]) Forward(b *Batch[T], _ []T) []T {
	w.p.Ops().CopyColumns(w.y, w.width, b.Numbers[w.first:], w.total, w.width, b.Rows)
	return w.y[:b.Rows*w.width]
}

func (w *numbersWork[T]) Backward(*Batch[T], []T, []T, func(lo, hi int)) {}

// A picture unit reads an image as numbers.
type picture[T Float] struct {
	pixels[T]
	index int // index among the images of a batch
}

func (u *picture[T]) Init(uint64) {}

func (u *picture[T]) NewWork(maxRows int) unitWork[T] {
	return &pictureWork[T]{u, Vector[T](maxRows * u.shape().Len())}
}

type pictureWork[T Float] struct {
	*picture[T]
	y []T
}

func (w *pictureWork[T]) Forward(b *Batch[T], _ []T) []T {
	each, bytes := w.shape().Len(), b.Images[w.index]
	for i := range b.Rows {
		w.unpack(w.y[i*each:(i+1)*each], bytes[i*each:(i+1)*each])
	}
	return w.y[:b.Rows*each]
}

func (w *pictureWork[T]) Backward(*Batch[T], []T, []T, func(lo, hi int)) {}

// A chosen unit computes features of the columns [first, first+places) of Batch.Choices. total is the number of columns
// of a row.
type chosen[T Float] struct {
	*Embedding[T]
	first, total int
}

func (u *chosen[T]) Init(seed uint64) { u.Embedding.Init(seed) }

func (u *chosen[T]) NewWork(maxRows int) unitWork[T] {
	return &chosenWork[T]{u, Vector[T](maxRows * u.Out)}
}

type chosenWork[T Float] struct {
	*chosen[T]
	y []T
}

func (w *chosenWork[T]) Forward(b *Batch[T], _ []T) []T {
	w.Embedding.Forward(w.y, b.Choices[w.first:], w.total, b.Rows)
	return w.y[:b.Rows*w.Out]
}

func (w *chosenWork[T]) Backward(b *Batch[T], _, dy []T, ready func(lo, hi int)) {
	w.Embedding.Backward(dy, b.Choices[w.first:], w.total, b.Rows)
	ready(w.Range())
}

// dense is a Linear.
type dense[T Float] struct{ *Linear[T] }

func (u *dense[T]) Init(seed uint64) { u.Linear.Init(seed, math.Sqrt2) }

func (u *dense[T]) NewWork(maxRows int) unitWork[T] {
	return &denseWork[T]{Linear: u.Linear, y: Vector[T](maxRows * u.Out), scratch: Vector[T](u.In * u.Out)}
}

type denseWork[T Float] struct {
	*Linear[T]
	x, y, scratch []T
}

func (w *denseWork[T]) Forward(b *Batch[T], x []T) []T {
	w.x = x
	w.Linear.Forward(w.y, x, b.Rows)
	return w.y[:b.Rows*w.Out]
}

func (w *denseWork[T]) Backward(b *Batch[T], dx, dy []T, ready func(lo, hi int)) {
	w.Linear.Backward(dx, w.x, dy, b.Rows, false, w.scratch)
	ready(w.Range())
}

// activation applies a function to each element.
type activation[T Float] struct {
	p     *Params[T]
	f     Activation
	width int
}

func (u *activation[T]) Init(uint64) {}

func (u *activation[T]) NewWork(maxRows int) unitWork[T] {
	return &activationWork[T]{u, Vector[T](maxRows * u.width)}
}

type activationWork[T Float] struct {
	*activation[T]
	y []T
}

func (w *activationWork[T]) Forward(b *Batch[T], x []T) []T {
	y := w.y[:b.Rows*w.width]
	w.p.Ops().Activate(w.f, y, x)
	return y
}

func (w *activationWork[T]) Backward(b *Batch[T], dx, dy []T, _ func(lo, hi int)) {
	if dx == nil {
		return
	}
	n := b.Rows * w.width
	w.p.Ops().ActivateGrad(w.f, dx[:n], dy[:n], w.y[:n])
}

// imageLayer is the unit of a layer that maps images to images.
type imageLayer[T Float] struct {
	layer[T]
	in Image
}

func (u *imageLayer[T]) NewWork(maxRows int) unitWork[T] {
	w := &imageWork[T]{of: u.layer.NewWork(maxRows, new(ConvWork[T])), in: u.in.Len()}
	if _, trains := u.layer.(*Conv2D[T]); !trains {
		w.unasked = Vector[T](maxRows * w.in)
	}
	return w
}

type imageWork[T Float] struct {
	of      layerWork[T]
	in      int
	x       []T
	unasked []T // replaces a nil dx, because the layer writes the gradient of its input in any case
}

func (w *imageWork[T]) Forward(b *Batch[T], x []T) []T {
	w.x = x
	return w.of.Forward(x, b.Rows)
}

func (w *imageWork[T]) Backward(b *Batch[T], dx, dy []T, ready func(lo, hi int)) {
	if dx == nil {
		dx = w.unasked
	}
	if dx != nil {
		dx = dx[:b.Rows*w.in]
	}
	w.of.Backward(dx, w.x, dy, b.Rows, ready)
}

// recurrentCell is a Recurrent whose state is a part of the network's state.
type recurrentCell[T Float] struct {
	*Recurrent[T]
	at, total int // offset of the cell's state in the network's state, and width of the network's state
}

func (u *recurrentCell[T]) Init(seed uint64) { u.Recurrent.Init(seed) }

func (u *recurrentCell[T]) NewWork(maxRows int) unitWork[T] {
	return &recurrentCellWork[T]{u, u.Recurrent.NewWork(maxRows), Vector[T](maxRows * u.State)}
}

type recurrentCellWork[T Float] struct {
	*recurrentCell[T]
	of    *RecurrentWork[T]
	state []T // [sequences, State]
}

func (w *recurrentCellWork[T]) Forward(b *Batch[T], x []T) []T {
	state := w.state[:b.Sequences*w.State]
	o := w.input.p.Ops()
	o.CopyColumns(state, w.State, b.State[w.at:], w.total, w.State, b.Sequences)
	y := w.Recurrent.Forward(w.of, state, x, state, b.Begins, b.Rows, b.Sequences)
	o.CopyColumns(b.Next[w.at:], w.total, state, w.State, w.State, b.Sequences)
	return y
}

func (w *recurrentCellWork[T]) Backward(_ *Batch[T], dx, dy []T, ready func(lo, hi int)) {
	copy(w.OutGrad(w.of), dy)
	w.Recurrent.Backward(w.of, dx)
	ready(w.Range())
}
