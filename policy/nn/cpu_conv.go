package nn

import "github.com/rlinf/rlinf/policy/nn/kernel"

// A ConvWork is working memory for the windows of a few images. On a device, it is for the windows of all images.
// Convolutions that run one after the other can share it.
type ConvWork[T Float] struct{ windows, dWindows, weight []T }

// Memory returns memory for windows, and for the transpose of the weights. Both are large enough for each layer that
// uses w.
func (w *ConvWork[T]) Memory() (windows, weight []T) { return w.windows, w.weight }

// windowElements is the maximum number of elements in memory for windows. The windows of a single image can have more.
// In float32, this memory takes 128 KiB. So it fits in the second-level cache together with weights and gradients.
const windowElements = 32 << 10

// fit makes w large enough for the windows s. images is the largest number of images at a time.
func (w *ConvWork[T]) fit(p *Params[T], s *Windows, images int) {
	each := s.rows() * s.width()
	if n := images * each; p.OnDevice() && n > len(w.windows) {
		w.windows = p.Vector(n)
	} else if n := s.batch() * each; !p.OnDevice() && n > len(w.windows) {
		w.windows, w.dWindows = Vector[T](n), Vector[T](n)
	}
	if n := s.width() * s.Out.C; n > len(w.weight) {
		w.weight = p.Vector(n)
	}
}

// heavyWeight is the number of weights from which they are far larger than the second-level cache. Then the windows in
// memory have half as many elements as the weights, so that each pass over the weights serves more windows.
const heavyWeight = 1 << 18

// batch returns the number of images whose windows are in memory at a time, at least 1.
func (s *Windows) batch() int {
	elements := windowElements
	if n := s.width() * s.Out.C; n >= heavyWeight {
		elements = n / 2
	}
	return max(1, elements/(s.rows()*s.width()))
}

// Conv copies the windows of a few images at a time to the rows of a matrix, and multiplies these rows. This is im2col
// (Chellapilla, Puri and Simard 2006, "High performance convolutional neural networks for document processing").
func (o cpu[T]) Conv(y, x, weight, bias []T, s *Windows, w *ConvWork[T], n int) {
	for lo, count := 0, 0; lo < n; lo += count {
		count = min(s.batch(), n-lo)
		rows := w.layOut(s, x[lo*s.In.Len():], count)
		o.Product(y[lo*s.Out.Len():][:rows*s.Out.C], w.windows[:rows*s.width()], weight, bias, rows, s.Out.C, s.width(),
			false)
	}
}

func (o cpu[T]) ConvGrad(dx, dWeight, dBias, x, dy, weight []T, s *Windows, w *ConvWork[T], n int) {
	if dx != nil {
		clear(dx[:n*s.In.Len()])
		kernel.Transpose(w.weight[:len(weight)], weight, s.width(), s.Out.C)
	}
	each := s.rows() * s.width()
	for lo, count := 0, 0; lo < n; lo += count {
		count = min(s.batch(), n-lo)
		rows := w.layOut(s, x[lo*s.In.Len():], count)
		part := dy[lo*s.Out.Len():][:rows*s.Out.C]
		if dBias != nil {
			kernel.ColSum(dBias, part, rows, s.Out.C, true)
		}
		o.Gradient(dWeight, w.windows[:rows*s.width()], part, s.width(), s.Out.C, rows, true)
		if dx == nil {
			continue
		}
		o.Product(w.dWindows[:rows*s.width()], part, w.weight[:len(weight)], nil, rows, s.width(), s.Out.C, false)
		for i := range count {
			addUp(s, dx[(lo+i)*s.In.Len():(lo+i+1)*s.In.Len()], w.dWindows[i*each:(i+1)*each])
		}
	}
}

// layOut fills w.windows with the windows of count images, and returns the number of windows.
func (w *ConvWork[T]) layOut(s *Windows, x []T, count int) int {
	each := s.rows() * s.width()
	for i := range count {
		cut(s, w.windows[i*each:(i+1)*each], x[i*s.In.Len():(i+1)*s.In.Len()])
	}
	return count * s.rows()
}

// cut sets windows, [Out.H·Out.W, size·size·C], to the windows of the image x.
func cut[T Float](s *Windows, windows, x []T) {
	each := s.width()
	first, end := s.span()
	for oy := range s.Out.H { // clear pixels outside the image
		row := windows[oy*s.Out.W*each : (oy+1)*s.Out.W*each]
		if top := oy*s.Stride - s.Pad; top < 0 || top+s.Size > s.In.H {
			clear(row)
			continue
		}
		clear(row[:first*each])
		clear(row[end*each:])
	}
	s.eachLine(func(i, j, width, n int) {
		kernel.CopyColumns(windows[i:], each, x[j:], s.Stride*s.In.C, width, n)
	})
}

// addUp adds the gradients of the windows of an image, dWindows, to the gradient of the image, dx (col2im).
func addUp[T Float](s *Windows, dx, dWindows []T) {
	each := s.width()
	s.eachLine(func(i, j, width, n int) {
		kernel.AddColumns(dx[j:], s.Stride*s.In.C, dWindows[i:], each, width, n)
	})
}

// eachLine calls visit for every line of pixels in the windows of an image. A line has width elements. It begins at
// windows[i] and at image[j]. One call can cover this line in n neighbouring windows; in the image, these are Stride
// pixels apart. If several windows share a pixel, their calls come in the order of the windows.
func (s *Windows) eachLine(visit func(i, j, width, n int)) {
	line, each := s.Size*s.In.C, s.width()
	first, end := s.span()
	for oy := range s.Out.H {
		top := oy*s.Stride - s.Pad
		for ky := max(0, -top); ky < min(s.Size, s.In.H-top); ky++ {
			at := oy*s.Out.W*each + ky*line
			run := func(ox, n int) {
				left := ox*s.Stride - s.Pad
				lo, hi := max(0, -left), min(s.Size, s.In.W-left)
				if lo < hi {
					visit(at+ox*each+lo*s.In.C, ((top+ky)*s.In.W+left+lo)*s.In.C, (hi-lo)*s.In.C, n)
				}
			}
			for ox := range first {
				run(ox, 1)
			}
			if first < end {
				run(first, end-first)
			}
			for ox := end; ox < s.Out.W; ox++ {
				run(ox, 1)
			}
		}
	}
}

// span returns the windows [first, end) of a row of windows that lie between the left and the right edge of the image.
func (s *Windows) span() (first, end int) {
	first = min((s.Pad+s.Stride-1)/s.Stride, s.Out.W)
	if room := s.In.W + s.Pad - s.Size; room >= 0 {
		end = min(room/s.Stride+1, s.Out.W)
	}
	return first, max(first, end)
}
