package nn

import "math"

// A layer maps images to images. A ConvNet has such layers after its first convolution.
type layer[T Float] interface {
	// Shape returns the shape of an output image.
	Shape() Image
	Init(seed uint64)
	// NewWork returns the memory of one user for at most maxRows images. All convolutions share conv.
	NewWork(maxRows int, conv *ConvWork[T]) layerWork[T]
}

type layerWork[T Float] interface {
	// Forward returns the output for the n images x, in memory of the layerWork or in x itself.
	Forward(x []T, n int) []T
	// Backward adds the gradients of the last Forward, whose input was x. dy is the gradient of the output. Backward
	// calls ready for the gradients of the layer. It returns the gradient of x, in memory of dx or of dy.
	Backward(dx, x, dy []T, n int, ready func(lo, hi int)) []T
}

// Shape returns the shape of an output image.
func (c *Conv2D[T]) Shape() Image { return c.Out }

// NewWork returns a layerWork with its own memory for maxRows images, and with the shared conv.
func (c *Conv2D[T]) NewWork(maxRows int, conv *ConvWork[T]) layerWork[T] {
	conv.fit(&c.Windows)
	return &convLayer[T]{c: c, w: conv, y: Vector[T](maxRows * c.Out.Len())}
}

type convLayer[T Float] struct {
	c *Conv2D[T]
	w *ConvWork[T]
	y []T
}

func (l *convLayer[T]) Forward(x []T, n int) []T {
	l.c.Forward(l.w, l.y, x, n)
	return l.y[:n*l.c.Out.Len()]
}

func (l *convLayer[T]) Backward(dx, x, dy []T, n int, ready func(lo, hi int)) []T {
	l.c.Backward(l.w, dx, x, dy, n)
	if ready != nil {
		ready(l.c.Range())
	}
	return dx
}

// A rectifier applies ReLU to images, in place.
type rectifier[T Float] struct {
	p  *Params[T]
	in Image
}

func (r rectifier[T]) Shape() Image                           { return r.in }
func (r rectifier[T]) Init(uint64)                            {}
func (r rectifier[T]) NewWork(int, *ConvWork[T]) layerWork[T] { return r }
func (r rectifier[T]) Forward(x []T, n int) []T               { r.p.Ops().Activate(ReLU, x, x); return x }
func (r rectifier[T]) Backward(_, x, dy []T, _ int, _ func(lo, hi int)) []T {
	r.p.Ops().ActivateGrad(ReLU, dy, dy, x)
	return dy
}

// A maxPool takes the largest element of each channel in windows of 3×3 pixels. Windows are 2 pixels apart. The outer
// windows extend over the edges of the image by one pixel.
type maxPool[T Float] struct{ in, out Image }

func newMaxPool[T Float](in Image) *maxPool[T] { return &maxPool[T]{in, in.slide(3, 2, 1, in.C)} }

func (m *maxPool[T]) Shape() Image { return m.out }
func (m *maxPool[T]) Init(uint64)  {}

func (m *maxPool[T]) NewWork(maxRows int, _ *ConvWork[T]) layerWork[T] {
	return &poolLayer[T]{m, Vector[T](maxRows * m.out.Len())}
}

type poolLayer[T Float] struct {
	*maxPool[T]
	y []T
}

// window returns the rows [top, bottom) and the columns [left, right) of a window.
func (m *maxPool[T]) window(oy, ox int) (top, bottom, left, right int) {
	return max(0, 2*oy-1), min(m.in.H, 2*oy+2), max(0, 2*ox-1), min(m.in.W, 2*ox+2)
}

func (l *poolLayer[T]) Forward(x []T, n int) []T {
	c, rest := l.in.C, l.y
	for i := range n {
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
	return l.y[:n*l.out.Len()]
}

// Backward adds the gradient of each window to the window's largest element, or to the first one if several are equal.
// It sets dy to 0.
func (l *poolLayer[T]) Backward(dx, x, dy []T, n int, _ func(lo, hi int)) []T {
	dx = dx[:n*l.in.Len()]
	clear(dx)
	c, rest := l.in.C, l.y
	for i := range n {
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

// A residual adds the output of two 3×3 convolutions to the input. A ReLU precedes each convolution (He et al. 2016,
// arXiv:1603.05027).
type residual[T Float] struct{ first, second *Conv2D[T] }

func newResidual[T Float](p *Params[T], name string, in Image) *residual[T] {
	return &residual[T]{NewConv2D(p, name+".0", in, in.C, 3, 1, 1), NewConv2D(p, name+".1", in, in.C, 3, 1, 1)}
}

func (r *residual[T]) Shape() Image { return r.first.In }

// residualGain scales the initial weights of the second convolution. It is small, so that features do not grow with the
// number of blocks.
var residualGain = math.Sqrt(1. / 6)

func (r *residual[T]) Init(seed uint64) {
	r.first.Init(seed)
	r.second.product.Init(seed, math.Sqrt2*residualGain)
}

func (r *residual[T]) NewWork(maxRows int, conv *ConvWork[T]) layerWork[T] {
	conv.fit(&r.first.Windows)
	room := func() []T { return Vector[T](maxRows * r.Shape().Len()) }
	return &residualLayer[T]{r: r, w: conv, x: room(), h: room(), y: room(), d: room()}
}

type residualLayer[T Float] struct {
	r       *residual[T]
	w       *ConvWork[T]
	x, h, y []T // the inputs of the convolutions, and the output
	d       []T // gradient of h
}

func (l *residualLayer[T]) Forward(in []T, n int) []T {
	size := n * l.r.Shape().Len()
	x, h, y, o := l.x[:size], l.h[:size], l.y[:size], l.r.first.product.p.Ops()
	o.Activate(ReLU, x, in)
	l.r.first.Forward(l.w, h, x, n)
	o.Activate(ReLU, h, h)
	l.r.second.Forward(l.w, y, h, n)
	o.Axpy(y, 1, in)
	return y
}

func (l *residualLayer[T]) Backward(dx, in, dy []T, n int, ready func(lo, hi int)) []T {
	size := n * l.r.Shape().Len()
	d, o := l.d[:size], l.r.first.product.p.Ops()
	dx = dx[:size]
	l.r.second.Backward(l.w, d, l.h, dy, n)
	if ready != nil {
		ready(l.r.second.Range())
	}
	o.ActivateGrad(ReLU, d, d, l.h[:size])
	l.r.first.Backward(l.w, dx, l.x, d, n)
	if ready != nil {
		ready(l.r.first.Range())
	}
	o.ActivateGrad(ReLU, dx, dx, l.x[:size])
	o.Axpy(dx, 1, dy)
	return dx
}
