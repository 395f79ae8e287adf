package nn

// film modulates the features of images with the output of another unit, the field by.
type film[T Float] struct {
	p  *Params[T]
	in Image
	by unit[T] // computes γ and β
}

func (u *film[T]) Init(seed uint64) { u.by.Init(seed) }

func (u *film[T]) NewWork(w *NetWork[T]) unitWork[T] {
	return &filmWork[T]{film: u, by: u.by.NewWork(w), y: w.rows(u.in.Len()), rows: w.maxRows}
}

type filmWork[T Float] struct {
	*film[T]
	by       unitWork[T]
	x, y     []T
	factors  []T // γ and β of each image
	dFactors []T // the gradients of γ and β; allocated by the first Backward
	rows     int
}

func (w *filmWork[T]) Forward(b *Batch[T], x []T) []T {
	w.x, w.factors = x, w.by.Forward(b, nil)
	w.p.Ops().Modulate(w.y, x, w.factors, w.in, b.Rows)
	return w.y[:b.Rows*w.in.Len()]
}

func (w *filmWork[T]) Backward(b *Batch[T], _, dy []T, ready func(lo, hi int)) []T {
	if w.dFactors == nil {
		w.dFactors = Vector[T](2 * w.rows * w.in.C)
	}
	dFactors := w.dFactors[:2*b.Rows*w.in.C]
	w.p.Ops().ModulateGrad(dFactors, dy, w.x, w.factors, w.in, b.Rows)
	w.by.Backward(b, nil, dFactors, ready)
	return dy[:b.Rows*w.in.Len()]
}
