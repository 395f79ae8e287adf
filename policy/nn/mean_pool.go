package nn

// A meanPool takes the mean of each channel of an image.
type meanPool[T Float] struct {
	p  *Params[T]
	in Image
}

func (u *meanPool[T]) Init(uint64) {}

func (u *meanPool[T]) NewWork(w *NetWork[T]) unitWork[T] { return &meanPoolWork[T]{u, w.rows(u.in.C)} }

type meanPoolWork[T Float] struct {
	*meanPool[T]
	y []T
}

func (w *meanPoolWork[T]) Forward(b *Batch[T], x []T) []T {
	c, each := w.in.C, w.in.Len()
	y := w.y[:b.Rows*c]
	clear(y)
	for at := 0; at < each; at += c {
		w.p.Ops().AddColumns(y, c, x[at:], each, c, b.Rows)
	}
	w.p.Ops().Scale(y, T(c)/T(each))
	return y
}

func (w *meanPoolWork[T]) Backward(b *Batch[T], dx, dy []T, _ func(lo, hi int)) []T {
	if dx == nil {
		return nil
	}
	c, each := w.in.C, w.in.Len()
	w.p.Ops().Scale(dy[:b.Rows*c], T(c)/T(each))
	for at := 0; at < each; at += c {
		w.p.Ops().CopyColumns(dx[at:], each, dy, c, c, b.Rows)
	}
	return dx[:b.Rows*each]
}
