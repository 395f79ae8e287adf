package nn

import (
	"fmt"

	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// An Image is the shape of images: H rows of W pixels with C channels each, [H,W,C].
type Image struct{ H, W, C int }

// Len returns the number of elements.
func (s Image) Len() int { return s.H * s.W * s.C }

// slide returns the shape of the output of windows that slide over images of the shape s. The output has the given
// number of channels. A window has size×size pixels. Windows are stride pixels apart. Each image has a frame of pad
// pixels.
func (s Image) slide(size, stride, pad, channels int) Image {
	out := Image{(s.H+2*pad-size)/stride + 1, (s.W+2*pad-size)/stride + 1, channels}
	if s.H+2*pad < size || s.W+2*pad < size || s.C < 1 {
		panic(fmt.Sprintf("nn: windows of %d×%d pixels in images %v framed by %d", size, size, s, pad))
	}
	return out
}

// A Conv2D multiplies each window of size×size pixels of an image by W [size·size·C, filters] and adds b [filters].
// Windows are stride pixels apart. The image has a frame of pad pixels of zeros. The layer copies the windows of a few
// images at a time to the rows of a matrix, and applies a Linear to these rows. This is im2col (Chellapilla, Puri and
// Simard 2006, "High performance convolutional neural networks for document processing").
type Conv2D[T Float] struct {
	In, Out Image

	size, stride, pad int
	product           *Linear[T]
}

// NewConv2D declares a layer in p: name.weight and name.bias. It panics for images smaller than a
// window.
func NewConv2D[T Float](p *Params[T], name string, in Image, filters, size, stride, pad int) *Conv2D[T] {
	return &Conv2D[T]{
		In: in, Out: in.slide(size, stride, pad, filters), size: size, stride: stride, pad: pad,
		product: NewLinear(p, name, size*size*in.C, filters),
	}
}

// Range returns the part of Params.Grad that belongs to this layer.
func (c *Conv2D[T]) Range() (lo, hi int) { return c.product.Range() }

// A ConvWork is working memory for the windows of a few images. Convolutions that run one after the other can share it.
type ConvWork[T Float] struct{ windows, dWindows, weight []T }

// windowElements is the maximum number of elements in memory for windows. The windows of a single image can have more.
// In float32, windowElements elements take 128 KiB. They fit in the second-level cache together with weights and
// gradients.
const windowElements = 32 << 10

// fit makes w large enough for c.
func (w *ConvWork[T]) fit(c *Conv2D[T]) {
	if n := c.batch() * c.rows() * c.product.In; n > len(w.windows) {
		w.windows, w.dWindows = Vector[T](n), Vector[T](n)
	}
	if n := c.product.In * c.product.Out; n > len(w.weight) {
		w.weight = Vector[T](n)
	}
}

// NewConvWork returns working memory that is large enough for any of the given layers.
func NewConvWork[T Float](layers ...*Conv2D[T]) *ConvWork[T] {
	w := new(ConvWork[T])
	for _, c := range layers {
		w.fit(c)
	}
	return w
}

// rows returns the number of windows of an image.
func (c *Conv2D[T]) rows() int { return c.Out.H * c.Out.W }

// batch returns the number of images whose windows are in memory at a time.
func (c *Conv2D[T]) batch() int { return max(1, windowElements/(c.rows()*c.product.In)) }

// Forward sets y, [n,Out], from the images x, [n,In].
func (c *Conv2D[T]) Forward(w *ConvWork[T], y, x []T, n int) {
	for lo, count := 0, 0; lo < n; lo += count {
		count = min(c.batch(), n-lo)
		rows := c.layOut(w, x[lo*c.In.Len():], count)
		c.product.Forward(y[lo*c.Out.Len():], w.windows, rows)
	}
}

// Backward adds to the gradients of W and b. x, [n,In], has the images of the last Forward, and dy, [n,Out], is the
// gradient of the output. Unless dx, [n,In], is nil, Backward sets dx to the gradient of x.
func (c *Conv2D[T]) Backward(w *ConvWork[T], dx, x, dy []T, n int) {
	if dx != nil {
		clear(dx[:n*c.In.Len()])
	}
	for lo, count := 0, 0; lo < n; lo += count {
		count = min(c.batch(), n-lo)
		rows := c.layOut(w, x[lo*c.In.Len():], count)
		part := dy[lo*c.Out.Len():]
		if dx == nil {
			c.product.Backward(nil, w.windows, part, rows, false, nil)
			continue
		}
		c.product.Backward(w.dWindows, w.windows, part, rows, false, w.weight)
		each := c.rows() * c.product.In
		for i := range count {
			c.addUp(dx[(lo+i)*c.In.Len():(lo+i+1)*c.In.Len()], w.dWindows[i*each:(i+1)*each])
		}
	}
}

// layOut fills w.windows with the windows of count images, and returns the number of windows.
func (c *Conv2D[T]) layOut(w *ConvWork[T], x []T, count int) int {
	each := c.rows() * c.product.In
	for i := range count {
		c.cut(w.windows[i*each:(i+1)*each], x[i*c.In.Len():(i+1)*c.In.Len()])
	}
	return count * c.rows()
}

// cut sets windows, [Out.H·Out.W, size·size·C], to the windows of the image x.
func (c *Conv2D[T]) cut(windows, x []T) {
	each := c.product.In
	first, end := c.span()
	for oy := range c.Out.H { // clear pixels outside the image
		row := windows[oy*c.Out.W*each : (oy+1)*c.Out.W*each]
		if top := oy*c.stride - c.pad; top < 0 || top+c.size > c.In.H {
			clear(row)
			continue
		}
		clear(row[:first*each])
		clear(row[end*each:])
	}
	c.eachLine(func(i, j, width, n int) {
		kernel.CopyColumns(windows[i:], each, x[j:], c.stride*c.In.C, width, n)
	})
}

// addUp adds the gradients of the windows of an image, dWindows, to the gradient of the image, dx (col2im).
func (c *Conv2D[T]) addUp(dx, dWindows []T) {
	each := c.product.In
	c.eachLine(func(i, j, width, n int) {
		kernel.AddColumns(dx[j:], c.stride*c.In.C, dWindows[i:], each, width, n)
	})
}

// eachLine calls visit for every line of pixels in the windows. A line has width elements. It begins at windows[i] and
// at image[j]. One call covers the same line of n neighbouring windows, which are stride pixels apart in the image. If
// several windows share a pixel, their calls come in the order of the windows.
func (c *Conv2D[T]) eachLine(visit func(i, j, width, n int)) {
	line := c.size * c.In.C
	first, end := c.span()
	for oy := range c.Out.H {
		top := oy*c.stride - c.pad
		for ky := max(0, -top); ky < min(c.size, c.In.H-top); ky++ {
			at := oy*c.Out.W*c.product.In + ky*line
			run := func(ox, n int) {
				left := ox*c.stride - c.pad
				lo, hi := max(0, -left), min(c.size, c.In.W-left)
				if lo < hi {
					visit(at+ox*c.product.In+lo*c.In.C, ((top+ky)*c.In.W+left+lo)*c.In.C, (hi-lo)*c.In.C, n)
				}
			}
			for ox := range first {
				run(ox, 1)
			}
			if first < end {
				run(first, end-first)
			}
			for ox := end; ox < c.Out.W; ox++ {
				run(ox, 1)
			}
		}
	}
}

// span returns the range [first, end) of the windows in a row that are entirely between the left and right edges of the
// image.
func (c *Conv2D[T]) span() (first, end int) {
	first = min((c.pad+c.stride-1)/c.stride, c.Out.W)
	if room := c.In.W + c.pad - c.size; room >= 0 {
		end = min(room/c.stride+1, c.Out.W)
	}
	return first, max(first, end)
}
