package device

import "github.com/rlinf/rlinf/policy/nn"

// Conv sets y, n images s.Out, from the images x, s.In: y = windows(x)·weight + bias. The windows of all images lie in
// memory of w.
func (o *Ops) Conv(y, x, weight, bias []float32, s *nn.Windows, w *nn.ConvWork[float32], n int) {
	windows := o.windows(x, s, w, n)
	rows, width := sizesOf(s, n)
	o.Product(y, windows, weight, bias, rows, s.Out.C, width, false)
}

// ConvGrad adds to dWeight and, unless it is nil, to dBias, the gradients of weight and bias. dy is the gradient of y.
// Unless dx is nil, ConvGrad sets dx to the gradient of x.
func (o *Ops) ConvGrad(dx, dWeight, dBias, x, dy, weight []float32, s *nn.Windows, w *nn.ConvWork[float32], n int) {
	windows := o.windows(x, s, w, n)
	rows, width := sizesOf(s, n)
	if dBias != nil {
		o.ColSum(dBias, dy, rows, s.Out.C, true)
	}
	o.Gradient(dWeight, windows, dy, width, s.Out.C, rows, true)
	if dx == nil {
		return
	}
	_, transposed := w.Memory()
	transposed = transposed[:len(weight)]
	o.Transpose(transposed, weight, width, s.Out.C, 1)
	o.Product(windows, dy, transposed, nil, rows, width, s.Out.C, false) // their gradients, in their memory
	o.slide("convolution gradient", addWindows, dx[:n*s.In.Len()], windows, s)
}

// sizesOf returns the number of windows of n images, and the number of elements of a window.
func sizesOf(s *nn.Windows, n int) (rows, width int) {
	return n * s.Out.H * s.Out.W, s.Size * s.Size * s.In.C
}

// windows copies the windows of n images to memory of w.
func (o *Ops) windows(x []float32, s *nn.Windows, w *nn.ConvWork[float32], n int) []float32 {
	rows, width := sizesOf(s, n)
	windows, _ := w.Memory()
	windows = windows[:rows*width]
	o.slide("convolution", copyWindows, windows, x[:n*s.In.Len()], s)
	return windows
}

// slide launches a kernel with a thread for each element of dst.
func (o *Ops) slide(op string, k kernel, dst, src []float32, s *nn.Windows) {
	o.each(op, k, len(dst), o.at(op, dst, len(dst)), o.at(op, src, len(src)), number(len(dst)), number(s.In.H),
		number(s.In.W), number(s.In.C), number(s.Out.H), number(s.Out.W), number(s.Size), number(s.Stride),
		number(s.Pad))
}
