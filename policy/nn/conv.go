package nn

import "fmt"

// An Image is the shape of images: H rows of W pixels with C channels each, [H,W,C].
type Image struct{ H, W, C int }

// Len returns the number of elements.
func (s Image) Len() int { return s.H * s.W * s.C }

// slide returns the shape of the output of windows that slide over images of the shape s. The output has the given
// number of channels. A window has size×size pixels. Windows are stride pixels apart. Each image gets a border of pad
// pixels.
func (s Image) slide(size, stride, pad, channels int) Image {
	out := Image{(s.H+2*pad-size)/stride + 1, (s.W+2*pad-size)/stride + 1, channels}
	if s.H+2*pad < size || s.W+2*pad < size || s.C < 1 {
		panic(fmt.Sprintf("nn: windows of %d×%d pixels in images %v framed by %d", size, size, s, pad))
	}
	return out
}

// Windows describes windows of Size×Size pixels that slide over an image, Stride pixels apart. The image gets a border
// of Pad pixels of zeros. In is the shape of the image. Out is the shape of the output, which has one pixel for each
// window.
type Windows struct {
	In, Out           Image
	Size, Stride, Pad int
}

// rows returns the number of windows in an image.
func (s *Windows) rows() int { return s.Out.H * s.Out.W }

// width returns the number of elements of a window.
func (s *Windows) width() int { return s.Size * s.Size * s.In.C }

// A Conv2D multiplies each of its Windows by W [size·size·C, filters] and adds b [filters], unless it is unbiased.
type Conv2D[T Float] struct {
	Windows
	product *Linear[T]
}

// NewConv2D declares a layer in p: name.weight and name.bias. It panics for images smaller than a
// window.
func NewConv2D[T Float](p *Params[T], name string, in Image, filters, size, stride, pad int) *Conv2D[T] {
	return &Conv2D[T]{slide(in, filters, size, stride, pad), NewLinear(p, name, size*size*in.C, filters)}
}

// newUnbiased is NewConv2D without b.
func newUnbiased[T Float](p *Params[T], name string, in Image, filters, size, stride, pad int) *Conv2D[T] {
	n := size * size * in.C
	l := &Linear[T]{In: n, Out: filters, p: p, weight: p.Add(name+".weight", n, filters), bias: -1}
	return &Conv2D[T]{slide(in, filters, size, stride, pad), l}
}

func slide(in Image, filters, size, stride, pad int) Windows {
	return Windows{In: in, Out: in.slide(size, stride, pad, filters), Size: size, Stride: stride, Pad: pad}
}

// Range returns the part of Params.Grad that belongs to this layer.
func (c *Conv2D[T]) Range() (lo, hi int) { return c.product.Range() }

// Forward sets y, [n,Out], from the images x, [n,In].
func (c *Conv2D[T]) Forward(w *ConvWork[T], y, x []T, n int) {
	l := c.product
	l.p.Ops().Conv(y[:n*c.Out.Len()], x[:n*c.In.Len()], l.Weight(), l.Bias(), &c.Windows, w, n)
}

// Backward adds to the gradients of W and b. x, [n,In], has the images of the last Forward, and dy, [n,Out], is the
// gradient of the output. Unless dx, [n,In], is nil, Backward sets dx to the gradient of x.
func (c *Conv2D[T]) Backward(w *ConvWork[T], dx, x, dy []T, n int) {
	l := c.product
	var dBias []T
	if l.bias >= 0 {
		dBias = l.p.GradOf(l.bias)
	}
	l.p.Ops().ConvGrad(dx, l.p.GradOf(l.weight), dBias, x[:n*c.In.Len()], dy[:n*c.Out.Len()], l.Weight(),
		&c.Windows, w, n)
}
