package nn

import "math"

// convolution is a Conv2D.
type convolution[T Float] struct {
	*Conv2D[T]
	gain   float64
	fanOut bool
	pixels *picture[T] // the images, if the layer reads their bytes itself
}

func (u *convolution[T]) Init(seed uint64) {
	if u.fanOut {
		u.product.InitUniform(seed, math.Sqrt(6/float64(u.Size*u.Size*u.Out.C)))
		return
	}
	u.product.Init(seed, u.gain)
}

func (u *convolution[T]) NewWork(w *NetWork[T]) unitWork[T] {
	w.conv.fit(w.params, &u.Windows, w.maxRows)
	of := &convolutionWork[T]{convolution: u, scratch: &w.conv, y: w.rows(u.Out.Len())}
	if u.pixels != nil {
		of.x = Vector[T](u.batch() * u.In.Len())
	}
	return of
}

type convolutionWork[T Float] struct {
	*convolution[T]
	scratch *ConvWork[T]
	x, y    []T // x: the input, or a few of its images if pixels is set; y: the output
}

func (w *convolutionWork[T]) Forward(b *Batch[T], x []T) []T {
	if w.pixels == nil {
		w.x = x
		w.Conv2D.Forward(w.scratch, w.y, x, b.Rows)
	} else {
		w.eachBatch(b, func(lo, n int) { w.Conv2D.Forward(w.scratch, w.y[lo*w.Out.Len():], w.x, n) })
	}
	return w.y[:b.Rows*w.Out.Len()]
}

// eachBatch reads a few images at a time into w.x, and then calls visit. lo is the index of the first of these images,
// and n is their number.
func (w *convolutionWork[T]) eachBatch(b *Batch[T], visit func(lo, n int)) {
	for lo, n := 0, 0; lo < b.Rows; lo += n {
		n = min(w.batch(), b.Rows-lo)
		w.pixels.read(w.x, b, lo, n)
		visit(lo, n)
	}
}

func (w *convolutionWork[T]) Backward(b *Batch[T], dx, dy []T, ready func(lo, hi int)) []T {
	if w.pixels == nil {
		w.Conv2D.Backward(w.scratch, dx, w.x, dy, b.Rows)
	} else {
		w.eachBatch(b, func(lo, n int) { w.Conv2D.Backward(w.scratch, nil, w.x, dy[lo*w.Out.Len():], n) })
	}
	ready(w.Range())
	return dx
}

// A maxPool takes the largest element of each channel in windows of 3×3 pixels. Windows are 2 pixels apart. The outer
// windows extend beyond the edges of the image by one pixel.
type maxPool[T Float] struct{ in, out Image }

func newMaxPool[T Float](in Image) *maxPool[T] { return &maxPool[T]{in, in.slide(3, 2, 1, in.C)} }

func (m *maxPool[T]) Init(uint64) {}

func (m *maxPool[T]) NewWork(w *NetWork[T]) unitWork[T] {
	return &poolWork[T]{maxPool: m, y: w.rows(m.out.Len())}
}

type poolWork[T Float] struct {
	*maxPool[T]
	x, y []T
}

// window returns the rows [top, bottom) and the columns [left, right) of a window.
func (m *maxPool[T]) window(oy, ox int) (top, bottom, left, right int) {
	return max(0, 2*oy-1), min(m.in.H, 2*oy+2), max(0, 2*ox-1), min(m.in.W, 2*ox+2)
}

func (l *poolWork[T]) Forward(b *Batch[T], x []T) []T {
	l.x = x
	c, rest := l.in.C, l.y
	for i := range b.Rows {
		img := x[i*l.in.Len() : (i+1)*l.in.Len()]
		for oy := range l.out.H {
			for ox := range l.out.W {
				top, bottom, left, right := l.window(oy, ox)
				y := rest[:c]
				rest = rest[c:]
				copy(y, img[(top*l.in.W+left)*c:])
				for row := top; row < bottom; row++ {
					for col := left; col < right; col++ {
						pixel := img[(row*l.in.W+col)*c:][:len(y)]
						for k, v := range pixel {
							y[k] = max(y[k], v)
						}
					}
				}
			}
		}
	}
	return l.y[:b.Rows*l.out.Len()]
}

// Backward adds the gradient of each window to the window's largest element, or to the first one if several are equal.
// It sets dy to 0.
func (l *poolWork[T]) Backward(b *Batch[T], dx, dy []T, _ func(lo, hi int)) []T {
	if dx == nil {
		return nil
	}
	clear(dx)
	x, c, rest := l.x, l.in.C, l.y
	for i := range b.Rows {
		img := i * l.in.Len()
		for oy := range l.out.H {
			for ox := range l.out.W {
				top, bottom, left, right := l.window(oy, ox)
				y, d := rest[:c], dy[:c]
				rest, dy = rest[c:], dy[c:]
				for row := top; row < bottom; row++ {
					for col := left; col < right; col++ {
						at := img + (row*l.in.W+col)*c
						to := dx[at : at+c]
						for k, v := range x[at : at+c] {
							if v == y[k] {
								to[k] += d[k]
								d[k] = 0
							}
						}
					}
				}
			}
		}
	}
	return dx
}
