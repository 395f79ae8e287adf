package nn

// sequence passes the output of each unit to the next unit.
type sequence[T Float] struct {
	units  []unit[T]
	widths []int // widths of the units' outputs
}

func (s *sequence[T]) Init(seed uint64) {
	for _, u := range s.units {
		u.Init(seed)
	}
}

func (s *sequence[T]) NewWork(maxRows int) unitWork[T] {
	w := &sequenceWork[T]{widths: s.widths, maxRows: maxRows}
	for _, u := range s.units {
		w.units = append(w.units, u.NewWork(maxRows))
	}
	return w
}

type sequenceWork[T Float] struct {
	units   []unitWork[T]
	widths  []int
	maxRows int
	d       [][]T // the gradient of the output of each unit but the last; allocated by the first Backward
}

func (w *sequenceWork[T]) Forward(b *Batch[T], x []T) []T {
	for _, u := range w.units {
		x = u.Forward(b, x)
	}
	return x
}

func (w *sequenceWork[T]) Backward(b *Batch[T], dx, dy []T, ready func(lo, hi int)) {
	last := len(w.units) - 1
	if w.d == nil {
		for _, width := range w.widths[:last] {
			w.d = append(w.d, Vector[T](w.maxRows*width))
		}
	}
	for i := last; i > 0; i-- {
		below := w.d[i-1][:b.Rows*w.widths[i-1]]
		w.units[i].Backward(b, below, dy, ready)
		dy = below
	}
	w.units[0].Backward(b, dx, dy, ready)
}

// skip computes x + f(x).
type skip[T Float] struct {
	p     *Params[T]
	f     unit[T]
	width int
}

func (s *skip[T]) Init(seed uint64) { s.f.Init(seed) }

func (s *skip[T]) NewWork(maxRows int) unitWork[T] {
	n := maxRows * s.width
	return &skipWork[T]{skip: s, f: s.f.NewWork(maxRows), y: Vector[T](n), d: Vector[T](n)}
}

type skipWork[T Float] struct {
	*skip[T]
	f    unitWork[T]
	y, d []T // the output, and the gradient of the output of f
}

func (w *skipWork[T]) Forward(b *Batch[T], x []T) []T {
	y := w.y[:b.Rows*w.width]
	copy(y, w.f.Forward(b, x))
	w.p.Ops().Axpy(y, 1, x)
	return y
}

func (w *skipWork[T]) Backward(b *Batch[T], dx, dy []T, ready func(lo, hi int)) {
	n := b.Rows * w.width
	copy(w.d, dy[:n])
	w.f.Backward(b, dx, w.d[:n], ready)
	if dx != nil {
		w.p.Ops().Axpy(dx[:n], 1, dy[:n])
	}
}

// concat concatenates the outputs of its units.
type concat[T Float] struct {
	p       *Params[T]
	units   []unit[T]
	widths  []int
	uses    []bool // whether a unit uses the input
	in, out int    // widths of rows; in is 0 if there is no input
}

func (c *concat[T]) Init(seed uint64) {
	for _, u := range c.units {
		u.Init(seed)
	}
}

func (c *concat[T]) NewWork(maxRows int) unitWork[T] {
	w := &concatWork[T]{concat: c, y: Vector[T](maxRows * c.out), dx: Vector[T](maxRows * c.in)}
	for i, u := range c.units {
		w.works = append(w.works, u.NewWork(maxRows))
		w.dy = append(w.dy, Vector[T](maxRows*c.widths[i]))
	}
	return w
}

type concatWork[T Float] struct {
	*concat[T]
	works []unitWork[T]
	y, dx []T   // the output, and the gradient of the input through one unit
	dy    [][]T // the gradient of the output of each unit
}

func (w *concatWork[T]) Forward(b *Batch[T], x []T) []T {
	at := 0
	for i, u := range w.works {
		w.p.Ops().CopyColumns(w.y[at:], w.out, u.Forward(b, x), w.widths[i], w.widths[i], b.Rows)
		at += w.widths[i]
	}
	return w.y[:b.Rows*w.out]
}

func (w *concatWork[T]) Backward(b *Batch[T], dx, dy []T, ready func(lo, hi int)) {
	at, n := w.out, b.Rows*w.in
	if dx != nil {
		clear(dx[:n])
	}
	for i := len(w.works) - 1; i >= 0; i-- {
		at -= w.widths[i]
		part := w.dy[i][:b.Rows*w.widths[i]]
		w.p.Ops().CopyColumns(part, w.widths[i], dy[at:], w.out, w.widths[i], b.Rows)
		if dx == nil || !w.uses[i] {
			w.works[i].Backward(b, nil, part, ready)
			continue
		}
		w.works[i].Backward(b, w.dx[:n], part, ready)
		w.p.Ops().Axpy(dx[:n], 1, w.dx[:n])
	}
}
