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

// add appends a unit whose rows have the given width. If a convolution reads an image, it reads the bytes itself, a few
// images at a time, except on a device. An activation works in place if no other layer needs its input.
func (s *sequence[T]) add(u unit[T], width int) {
	if last := len(s.units) - 1; last >= 0 {
		switch u := u.(type) {
		case *convolution[T]:
			if p, ok := s.units[last].(*picture[T]); ok && !p.p.OnDevice() {
				u.pixels = p
				s.units, s.widths = s.units[:last], s.widths[:last]
			}
		case *activation[T]:
			switch s.units[last].(type) {
			case *dense[T], *convolution[T], *layerNorm[T], *film[T], *skip[T], *concat[T], *batchNorm[T],
				*groupNorm[T]:
				u.inPlace = true
			}
		}
	}
	s.units, s.widths = append(s.units, u), append(s.widths, width)
}

func (s *sequence[T]) NewWork(net *NetWork[T]) unitWork[T] {
	w := &sequenceWork[T]{net: net, widths: s.widths}
	switch s.units[0].(type) {
	case *numbers[T], *picture[T], *view[T], *featureMap[T]:
		w.reads = true
	}
	for i, u := range s.units {
		w.units = append(w.units, u.NewWork(net))
		if _, ok := u.(*dense[T]); !ok && w.mixes == i {
			w.mixes++
		}
		if i < len(s.units)-1 {
			w.size = max(w.size, net.maxRows*s.widths[i])
		}
	}
	if net.params.OnDevice() { // memory of a device must be allocated before the first pass
		w.d = [2][]T{net.params.Vector(w.size), net.params.Vector(w.size)}
	}
	return w
}

type sequenceWork[T Float] struct {
	net    *NetWork[T]
	units  []unitWork[T]
	widths []int
	d      [2][]T // gradients of the outputs of units, used alternately; allocated by the first Backward
	size   int    // length of each of them
	reads  bool   // whether the first unit only reads a source
	mixes  int    // index of the first unit whose output depends on all columns of its input
}

func (w *sequenceWork[T]) Forward(b *Batch[T], x []T) []T {
	for _, u := range w.units {
		x = u.Forward(b, x)
	}
	return x
}

func (w *sequenceWork[T]) Backward(b *Batch[T], dx, dy []T, ready func(lo, hi int)) []T {
	free := 0
	for i := len(w.units) - 1; i > 0; i-- {
		dy = w.units[i].Backward(b, w.below(b, i, free), dy, ready)
		if same(dy, w.d[free]) {
			free = 1 - free
		}
	}
	return w.units[0].Backward(b, dx, dy, ready)
}

// below returns memory for the gradient of the input of unit i, or nil if the input is a source.
func (w *sequenceWork[T]) below(b *Batch[T], i, free int) []T {
	if i == 1 && w.reads {
		return nil
	}
	if w.d[free] == nil {
		w.d[free] = w.net.params.Vector(w.size)
	}
	return w.d[free][:b.Rows*w.widths[i-1]]
}

func (w *sequenceWork[T]) InputGrad(b *Batch[T], dx, dy []T, first int) []T {
	free := 0
	for i := len(w.units) - 1; i > 0; i-- {
		from := 0
		if i <= w.mixes {
			from = first
		}
		dy = w.units[i].(inputGrader[T]).InputGrad(b, w.below(b, i, free), dy, from)
		if same(dy, w.d[free]) {
			free = 1 - free
		}
	}
	return w.units[0].(inputGrader[T]).InputGrad(b, dx, dy, first)
}

// skip computes x + f(x), or g(x) + f(x).
type skip[T Float] struct {
	p         *Params[T]
	f         unit[T]
	g         unit[T] // nil for x itself
	in, width int     // widths of a row of x and of the output
}

func (s *skip[T]) Init(seed uint64) {
	s.f.Init(seed)
	if s.g != nil {
		s.g.Init(seed)
	}
}

func (s *skip[T]) NewWork(w *NetWork[T]) unitWork[T] {
	of := &skipWork[T]{skip: s, f: s.f.NewWork(w), y: w.rows(s.width), d: w.rows(s.width), rows: w.maxRows}
	if s.g != nil {
		of.g = s.g.NewWork(w)
	}
	return of
}

type skipWork[T Float] struct {
	*skip[T]
	f, g unitWork[T]
	y, d []T // the output, and the gradient of the output of f
	dx   []T // the gradient of x through g; allocated by the first Backward
	rows int
}

func (w *skipWork[T]) Forward(b *Batch[T], x []T) []T {
	y := w.y[:b.Rows*w.width]
	copy(y, w.f.Forward(b, x))
	if w.g != nil {
		x = w.g.Forward(b, x)
	}
	w.p.Ops().Axpy(y, 1, x[:len(y)])
	return y
}

func (w *skipWork[T]) Backward(b *Batch[T], dx, dy []T, ready func(lo, hi int)) []T {
	n := b.Rows * w.width
	copy(w.d, dy[:n])
	through := dy[:n]
	if w.g != nil {
		var to []T
		if dx != nil {
			if w.dx == nil {
				w.dx = Vector[T](w.rows * w.in)
			}
			to = w.dx[:b.Rows*w.in]
		}
		through = w.g.Backward(b, to, through, ready)
	}
	d := w.f.Backward(b, dx, w.d[:n], ready)
	if dx == nil {
		return nil
	}
	w.p.Ops().Axpy(d, 1, through)
	return d
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

func (c *concat[T]) NewWork(net *NetWork[T]) unitWork[T] {
	w := &concatWork[T]{concat: c, y: net.rows(c.out), dx: net.rows(c.in)}
	for i, u := range c.units {
		w.works = append(w.works, u.NewWork(net))
		w.dy = append(w.dy, net.rows(c.widths[i]))
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

func (w *concatWork[T]) Backward(b *Batch[T], dx, dy []T, ready func(lo, hi int)) []T {
	at, n := w.out, b.Rows*w.in
	if dx != nil {
		w.p.Clear(dx[:n])
	}
	for i := len(w.works) - 1; i >= 0; i-- {
		at -= w.widths[i]
		part := w.dy[i][:b.Rows*w.widths[i]]
		w.p.Ops().CopyColumns(part, w.widths[i], dy[at:], w.out, w.widths[i], b.Rows)
		if dx == nil || !w.uses[i] {
			w.works[i].Backward(b, nil, part, ready)
			continue
		}
		w.p.Ops().Axpy(dx[:n], 1, w.works[i].Backward(b, w.dx[:n], part, ready))
	}
	return dx
}
