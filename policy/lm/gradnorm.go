package lm

import "github.com/rlinf/rlinf/policy/nn/kernel"

// GradSquares returns the sum of the squares of all gradients of m.Params, also of the parts that other ranks have. Each
// block of an axis that ranks may divide is summed by itself, so the bits do not depend on the parts. The order of all
// sums is that of the parameters.
func (m *Model) GradSquares(w *Work) (float64, error) {
	p := m.Params
	w.squares = w.squares[:0]
	for i, f := range p.Fields {
		slice, grad := p.SliceOf(f.Name), p.GradOf(i)
		if slice.Whole == 0 {
			sum := 0.0
			if m.part.Index == 0 { // all ranks have the same gradient
				sum = kernel.SumSq(grad)
			}
			w.squares = append(w.squares, sum)
			continue
		}
		row := 1 // elements between neighbours on the axis
		for _, n := range f.Shape[slice.Axis+1:] {
			row *= n
		}
		first, width := m.part.Index*m.own, m.Config.blockWidth(slice.Whole)
		for b := range m.blocks {
			sum := 0.0
			lo, hi := min(b*width, slice.Whole)-slice.From, min((b+1)*width, slice.Whole)-slice.From
			for at := 0; lo < hi && first <= b && b < first+m.own && at < len(grad); at += (slice.To - slice.From) * row {
				sum += kernel.SumSq(grad[at+lo*row : at+hi*row])
			}
			w.squares = append(w.squares, sum)
		}
	}
	if w.axis != nil && w.err == nil {
		w.err = w.axis.Sum64(w.squares) // one rank has each number, the others have 0
	}
	total := 0.0
	for _, x := range w.squares {
		total += x
	}
	return total, w.Err()
}
