package nn

import "github.com/rlinf/rlinf/policy/nn/kernel"

// A keypoints layer turns each channel into the place where it is large: the mean x and y of pixels, from -1 to 1 over the image, under the softmax of
// the channel over all pixels (Levine et al. 2016, arXiv:1504.00702, section 4.2). It gives all x, then all y.
type keypoints[T Float] struct{ in Image }

func (k keypoints[T]) shape() Image         { return Image{1, 1, 2 * k.in.C} }
func (k keypoints[T]) Init(uint64, float64) {}

func (k keypoints[T]) newWork(maxRows int, _ *ConvWork[T]) layerWork[T] {
	l := &keypointLayer[T]{
		keypoints: k, out: Vector[T](maxRows * 2 * k.in.C), prob: Vector[T](maxRows * k.in.Len()), d: Vector[T](k.in.Len()),
	}
	at := func(i, n int) T { return T(2*i+1)/T(n) - 1 }
	for i := range k.in.H * k.in.W {
		l.x, l.y = append(l.x, at(i%k.in.W, k.in.W)), append(l.y, at(i/k.in.W, k.in.H))
	}
	return l
}

type keypointLayer[T Float] struct {
	keypoints[T]
	out  []T
	prob []T // [n, C, H·W]
	d    []T // [C, H·W], derivative by what the softmax of one image takes
	x, y []T // [H·W], where pixels are
}

func (l *keypointLayer[T]) Forward(in []T, n int) []T {
	size, c, pixels := l.in.Len(), l.in.C, len(l.x)
	for i := range n {
		prob, out := l.prob[i*size:(i+1)*size], l.out[2*i*c:2*(i+1)*c]
		kernel.Transpose(prob, in[i*size:(i+1)*size], pixels, c)
		kernel.LogSoftmax(prob, prob, c, pixels)
		kernel.Exp(prob, prob)
		for k := range c {
			var x, y T
			for j, p := range prob[k*pixels : (k+1)*pixels] {
				x += T(p * l.x[j])
				y += T(p * l.y[j])
			}
			out[k], out[c+k] = x, y
		}
	}
	return l.out[:2*n*c]
}

// Backward: of a channel with the means X and Y, the derivative by pixel j is prob_j ((x_j - X) dX + (y_j - Y) dY).
func (l *keypointLayer[T]) Backward(dx, _, dy []T, n int, _ func(lo, hi int)) []T {
	size, c, pixels := l.in.Len(), l.in.C, len(l.x)
	for i := range n {
		prob, out, dOut := l.prob[i*size:(i+1)*size], l.out[2*i*c:2*(i+1)*c], dy[2*i*c:2*(i+1)*c]
		for k := range c {
			d := l.d[k*pixels : (k+1)*pixels]
			for j, p := range prob[k*pixels : (k+1)*pixels] {
				d[j] = p * (T((l.x[j]-out[k])*dOut[k]) + T((l.y[j]-out[c+k])*dOut[c+k]))
			}
		}
		kernel.Transpose(dx[i*size:(i+1)*size], l.d, c, pixels)
	}
	return dx[:n*size]
}
