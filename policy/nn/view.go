package nn

// A view unit reads an image of bytes, resizes it, and normalises its channels; see View.
type view[T Float] struct {
	index     int // index among the images of a batch
	in, out   Image
	mean, inv []T // of each channel
	rows      []between[T]
	columns   []between[T]
}

// A between is a position between two rows or columns of pixels. Its value is (1-share)·first + share·second.
type between[T Float] struct {
	first, second int
	share         T
}

func newView[T Float](in Image, l Layer, index int) *view[T] {
	v := &view[T]{index: index, in: in, out: Image{l.size, l.width, in.C}}
	for c, m := range l.norm[0] {
		v.mean, v.inv = append(v.mean, T(m)), append(v.inv, T(1/l.norm[1][c]))
	}
	v.rows, v.columns = positions[T](in.H, v.out.H), positions[T](in.W, v.out.W)
	return v
}

// positions returns the positions of n new pixels in a line of m pixels. The centre of new pixel i is at (i+½)m/n - ½.
func positions[T Float](m, n int) []between[T] {
	all := make([]between[T], n)
	for i := range all {
		at := max((float64(i)+0.5)*float64(m)/float64(n)-0.5, 0)
		first := min(int(at), m-1)
		all[i] = between[T]{first, min(first+1, m-1), T(at - float64(first))}
	}
	return all
}

func (u *view[T]) Init(uint64) {}

func (u *view[T]) NewWork(w *NetWork[T]) unitWork[T] {
	return &viewWork[T]{u, w.rows(u.out.Len())}
}

type viewWork[T Float] struct {
	*view[T]
	y []T
}

func (w *viewWork[T]) Forward(b *Batch[T], _ []T) []T {
	c, y := w.in.C, w.y
	for i := range b.Rows {
		img := b.Images[w.index][i*w.in.Len() : (i+1)*w.in.Len()]
		for _, row := range w.rows {
			top, bottom := img[row.first*w.in.W*c:], img[row.second*w.in.W*c:]
			for _, col := range w.columns {
				left, right := col.first*c, col.second*c
				for k, m := range w.mean {
					upper := T(top[left+k]) + col.share*(T(top[right+k])-T(top[left+k]))
					lower := T(bottom[left+k]) + col.share*(T(bottom[right+k])-T(bottom[left+k]))
					y[k] = ((upper+row.share*(lower-upper))/255 - m) * w.inv[k]
				}
				y = y[c:]
			}
		}
	}
	return w.y[:b.Rows*w.out.Len()]
}

func (w *viewWork[T]) Backward(_ *Batch[T], _, _ []T, _ func(lo, hi int)) []T { return nil }
