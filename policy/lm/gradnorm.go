package lm

// GradSquares returns the sum of the squares of all gradients of m.Params, including the parts on other ranks. If an
// axis of a parameter can be split among ranks, each block of the axis is summed separately. So the bits do not depend
// on the split. The sums are added in the order of the whole model's parameters. GradSquares reads the program's
// memory, unless MeasureOnDevice was called.
func (m *Model) GradSquares(w *Work) (float64, error) {
	if w.squares == nil {
		w.countSquares()
	}
	clear(w.squares)
	if w.pieces != nil {
		for i, s := range m.Params.SquareSums(w.pieces) {
			w.squares[w.pieceOf[i]] += s
		}
	} else {
		host := m.Params.Host()
		m.eachSquare(w, func(to, lo, hi int) { w.squares[to] += host.SumSq(m.Params.Grad[lo:hi]) })
	}
	for _, axis := range []Axis{w.axis, w.pipe} { // each sum is on one rank; the other ranks have 0 there
		if axis != nil && w.err == nil {
			w.err = axis.Sum64(w.squares)
		}
	}
	total := 0.0
	for _, x := range w.squares {
		total += x
	}
	return total, w.Err()
}

// eachSquare calls visit for the pieces of the gradients whose squares are summed: m.Params.Grad[lo:hi], which adds to
// w.squares[to].
func (m *Model) eachSquare(w *Work, visit func(to, lo, hi int)) {
	p := m.Params
	for i, f := range p.Fields {
		slice, to := p.SliceOf(f.Name), w.squareOf[f.Name]
		if f.Name == embedName && !m.first() {
			continue // the first stage has the same gradient
		}
		if slice.Whole == 0 {
			if m.part.Index == 0 { // all tensor-parallel ranks have the same gradient
				visit(to, f.Off, f.Off+f.Len())
			}
			continue
		}
		width, inner := m.Config.blockWidth(slice.Whole), 1 // inner: elements between neighbours on the axis
		for _, n := range p.Fields[i].Shape[slice.Axis+1:] {
			inner *= n
		}
		stride, size := (slice.To-slice.From)*inner, f.Len()
		for b := m.part.Index * m.own; b < (m.part.Index+1)*m.own; b++ {
			lo, hi := (min(b*width, slice.Whole)-slice.From)*inner, (min((b+1)*width, slice.Whole)-slice.From)*inner
			for ; lo < hi && lo < size; lo, hi = lo+stride, hi+stride {
				visit(to+b, f.Off+lo, f.Off+hi)
			}
		}
	}
}

// MeasureOnDevice makes GradSquares measure the gradients on the device of w, with one launch for all pieces.
func (m *Model) MeasureOnDevice(w *Work) (err error) {
	w.countSquares()
	var pieces []int64
	m.eachSquare(w, func(to, lo, hi int) {
		w.pieceOf, pieces = append(w.pieceOf, int32(to)), append(pieces, int64(lo), int64(hi))
	})
	w.pieces, err = m.Params.NewSquareSums(pieces)
	return err
}

// countSquares allocates w.squares for all parameters of the whole model. It sets w.squareOf to the index of each
// parameter's first block in w.squares.
func (w *Work) countSquares() {
	w.squareOf = map[string]int{}
	n := 0
	whole := w.m.Whole().Params
	for _, f := range whole.Fields {
		w.squareOf[f.Name] = n
		if n++; whole.SliceOf(f.Name).Whole > 0 {
			n += w.m.blocks - 1
		}
	}
	w.squares = make([]float64, n)
}
