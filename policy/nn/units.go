package nn

// A numbers unit reads the columns [first, first+width) of Batch.Numbers. total is the number of columns of a row.
type numbers[T Float] struct {
	p                   *Params[T]
	first, width, total int
}

func (u *numbers[T]) Init(uint64) {}

func (u *numbers[T]) NewWork(w *NetWork[T]) unitWork[T] {
	if u.width == u.total {
		return &numbersWork[T]{numbers: u}
	}
	return &numbersWork[T]{u, w.rows(u.width)}
}

type numbersWork[T Float] struct {
	*numbers[T]
	y []T // nil if the unit reads all columns
}

func (w *numbersWork[T]) Forward(b *Batch[T], _ []T) []T {
	if w.y == nil {
		return b.Numbers
	}
	w.p.Ops().CopyColumns(w.y, w.width, b.Numbers[w.first:], w.total, w.width, b.Rows)
	return w.y[:b.Rows*w.width]
}

func (w *numbersWork[T]) Backward(_ *Batch[T], _, _ []T, _ func(lo, hi int)) []T { return nil }

// A picture unit reads an image as numbers.
type picture[T Float] struct {
	pixels[T]
	p     *Params[T]
	index int // index among the images of a batch
}

func (u *picture[T]) Init(uint64) {}

func (u *picture[T]) NewWork(w *NetWork[T]) unitWork[T] {
	return &pictureWork[T]{u, w.params.Shared(w.maxRows * u.shape().Len())}
}

type pictureWork[T Float] struct {
	*picture[T]
	y []T
}

func (w *pictureWork[T]) Forward(b *Batch[T], _ []T) []T {
	y := w.y[:b.Rows*w.shape().Len()]
	w.read(y, b, 0, b.Rows)
	w.p.Upload(y)
	return y
}

// read sets dst to n images of b. lo is the index of the first of them.
func (u *picture[T]) read(dst []T, b *Batch[T], lo, n int) {
	each, bytes := u.shape().Len(), b.Images[u.index]
	for i := range n {
		u.unpack(dst[i*each:(i+1)*each], bytes[(lo+i)*each:(lo+i+1)*each])
	}
}

func (w *pictureWork[T]) Backward(_ *Batch[T], _, _ []T, _ func(lo, hi int)) []T { return nil }

// A featureMap unit reads a feature map of a batch. It keeps nothing between passes, so it is also its own unitWork.
type featureMap[T Float] struct {
	index int // index among the feature maps of a batch
	each  int // number of elements of a row
}

func (u *featureMap[T]) Init(uint64) {}

func (u *featureMap[T]) NewWork(*NetWork[T]) unitWork[T] { return u }

func (u *featureMap[T]) Forward(b *Batch[T], _ []T) []T { return b.Maps[u.index][:b.Rows*u.each] }

func (u *featureMap[T]) Backward(*Batch[T], []T, []T, func(lo, hi int)) []T { return nil }

// dense is a Linear.
type dense[T Float] struct {
	*Linear[T]
	gain float64
}

func (u *dense[T]) Init(seed uint64) { u.Linear.Init(seed, u.gain) }

func (u *dense[T]) NewWork(w *NetWork[T]) unitWork[T] {
	if n := u.In * u.Out; n > len(w.weight) {
		w.weight = w.params.Vector(n)
	}
	return &denseWork[T]{Linear: u.Linear, net: w, y: w.rows(u.Out)}
}

type denseWork[T Float] struct {
	*Linear[T]
	net  *NetWork[T] // has the scratch memory
	x, y []T
}

func (w *denseWork[T]) Forward(b *Batch[T], x []T) []T {
	w.x = x
	w.Linear.Forward(w.y, x, b.Rows)
	return w.y[:b.Rows*w.Out]
}

func (w *denseWork[T]) Backward(b *Batch[T], dx, dy []T, ready func(lo, hi int)) []T {
	w.Linear.Backward(dx, w.x, dy, b.Rows, false, w.net.weight)
	ready(w.Range())
	return dx
}

func (w *denseWork[T]) InputGrad(b *Batch[T], dx, dy []T, first int) []T {
	w.Linear.InputGrad(dx, dy, b.Rows, first, w.net.weight)
	return dx
}

// activation applies a function to each element.
type activation[T Float] struct {
	p       *Params[T]
	f       Activation
	width   int
	inPlace bool
}

func (u *activation[T]) Init(uint64) {}

func (u *activation[T]) NewWork(w *NetWork[T]) unitWork[T] {
	if u.inPlace {
		return &activationWork[T]{activation: u}
	}
	return &activationWork[T]{u, w.rows(u.width)}
}

type activationWork[T Float] struct {
	*activation[T]
	y []T
}

func (w *activationWork[T]) Forward(b *Batch[T], x []T) []T {
	n := b.Rows * w.width
	if w.inPlace {
		w.y = x
	}
	w.p.Ops().Activate(w.f, w.y[:n], x[:n])
	return w.y[:n]
}

func (w *activationWork[T]) Backward(b *Batch[T], _, dy []T, _ func(lo, hi int)) []T {
	dy = dy[:b.Rows*w.width]
	w.p.Ops().ActivateGrad(w.f, dy, dy, w.y[:len(dy)])
	return dy
}

func (w *activationWork[T]) InputGrad(b *Batch[T], _, dy []T, _ int) []T {
	return w.Backward(b, nil, dy, nil)
}

// batchNorm is a BatchRenorm that treats each pixel of a row as a row of its own.
type batchNorm[T Float] struct {
	*BatchRenorm[T]
	pixels int
}

func (u *batchNorm[T]) Init(uint64) { u.BatchRenorm.Init() }

func (u *batchNorm[T]) NewWork(w *NetWork[T]) unitWork[T] {
	of := u.BatchRenorm.NewWork(w.maxRows * u.pixels)
	w.norms = append(w.norms, of)
	return &batchNormWork[T]{u, of}
}

type batchNormWork[T Float] struct {
	*batchNorm[T]
	of *BatchRenormWork[T]
}

func (w *batchNormWork[T]) Forward(b *Batch[T], x []T) []T {
	return w.BatchRenorm.Forward(w.of, x, b.Rows*w.pixels, b.Renorm)
}

func (w *batchNormWork[T]) Backward(b *Batch[T], _, dy []T, ready func(lo, hi int)) []T {
	w.BatchRenorm.Backward(w.of, dy, b.Rows*w.pixels)
	ready(w.Range())
	return dy[:b.Rows*w.pixels*w.Width]
}

func (w *batchNormWork[T]) InputGrad(b *Batch[T], _, dy []T, first int) []T {
	w.BatchRenorm.InputGrad(w.of, dy[:b.Rows*(w.Width-first)], w.Width-first)
	return dy
}

// recurrentCell is a RecurrentCell whose state is a part of the network's state.
type recurrentCell[T Float] struct {
	*RecurrentCell[T]
	at, total int // offset of the cell's state in the network's state, and width of the network's state
}

func (u *recurrentCell[T]) NewWork(w *NetWork[T]) unitWork[T] {
	return &recurrentCellWork[T]{u, u.RecurrentCell.NewWork(w.maxRows), w.rows(u.State)}
}

type recurrentCellWork[T Float] struct {
	*recurrentCell[T]
	of    *RecurrentWork[T]
	state []T // [sequences, State]
}

func (w *recurrentCellWork[T]) Forward(b *Batch[T], x []T) []T {
	if w.State == w.total {
		return w.RecurrentCell.Forward(w.of, b.Next, x, b.State, b.Begins, b.Rows, b.Sequences)
	}
	state := w.state[:b.Sequences*w.State]
	o := w.input.p.Ops()
	o.CopyColumns(state, w.State, b.State[w.at:], w.total, w.State, b.Sequences)
	y := w.RecurrentCell.Forward(w.of, state, x, state, b.Begins, b.Rows, b.Sequences)
	o.CopyColumns(b.Next[w.at:], w.total, state, w.State, w.State, b.Sequences)
	return y
}

func (w *recurrentCellWork[T]) Backward(_ *Batch[T], dx, dy []T, ready func(lo, hi int)) []T {
	w.RecurrentCell.Backward(w.of, dx, dy)
	ready(w.Range())
	return dx
}
