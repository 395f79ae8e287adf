package lm

// GradSquares returns the sum of the squares of all gradients of m.Params, including the parts on other ranks. If an
// axis of a parameter can be split among ranks, each block of the axis is summed separately. So the bits do not depend
// on the split. The sums are added in the order of the whole model's parameters.
func (m *Model) GradSquares(w *Work) (float64, error) {
	p := m.Params
	if w.squares == nil {
		w.countSquares()
	}
	clear(w.squares)
	for i, f := range p.Fields {
		slice, grad, to := p.SliceOf(f.Name), p.GradOf(i), w.squares[w.squareOf[f.Name]:]
		if f.Name == embedName && !m.first() {
			continue // the first stage has the same gradient
		}
		if slice.Whole == 0 {
			if m.part.Index == 0 { // all tensor-parallel ranks have the same gradient
				to[0] = w.base.SumSq(grad)
			}
			continue
		}
		width, inner := m.Config.blockWidth(slice.Whole), 1 // inner: elements between neighbours on the axis
		for _, n := range f.Shape[slice.Axis+1:] {
			inner *= n
		}
		stride := (slice.To - slice.From) * inner
		for b := m.part.Index * m.own; b < (m.part.Index+1)*m.own; b++ {
			lo, hi := (min(b*width, slice.Whole)-slice.From)*inner, (min((b+1)*width, slice.Whole)-slice.From)*inner
			for ; lo < hi && lo < len(grad); lo, hi = lo+stride, hi+stride {
				to[b] += w.base.SumSq(grad[lo:hi])
			}
		}
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
