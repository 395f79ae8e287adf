package nn

import (
	"math"

	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// A keypoints layer turns each channel into the place where it is large. That is the mean x and y
// of pixels, from -1 to 1 over the image, under the softmax of the channel over all pixels (Levine
// et al. 2016, arXiv:1504.00702, section 4.2). It gives all x, then all y. The softmax takes the
// channel with mean 0 and a fixed deviation over the pixels. A small thing that stands out then has
// nearly all of the weight, whatever the scale of the weights below.
type keypoints[T Float] struct {
	in        Image
	deviation float64
}

func (k keypoints[T]) Shape() Image         { return Image{1, 1, 2 * k.in.C} }
func (k keypoints[T]) Init(uint64, float64) {}

func (k keypoints[T]) NewWork(maxRows int, _ *ConvWork[T]) layerWork[T] {
	l := &keypointLayer[T]{
		keypoints: k, out: Vector[T](maxRows * 2 * k.in.C), unit: Vector[T](maxRows * k.in.Len()),
		prob: Vector[T](maxRows * k.in.Len()),
		inv:  Vector[T](maxRows * k.in.C), d: Vector[T](k.in.Len()),
	}
	for i := range k.in.H * k.in.W {
		l.one = append(l.one, 1)
		l.x, l.y = append(l.x, along[T](i%k.in.W, k.in.W)), append(l.y, along[T](i/k.in.W, k.in.H))
	}
	return l
}

type keypointLayer[T Float] struct {
	keypoints[T]
	out        []T
	unit, prob []T // [n, C, H·W]: what the softmax takes, and gives
	inv        []T // [n, C], what channels were multiplied by
	d          []T // [C, H·W], derivative by one image
	x, y, one  []T // [H·W], where pixels are, and ones
}

// channelVar is added to the variance of a channel, so that one without any stays 0.
const channelVar = 1e-5

// standardise replaces u by its difference from the mean, scaled to a standard deviation, and
// returns the scale.
func (l *keypointLayer[T]) standardise(u []T) T {
	kernel.Axpy(u, -kernel.Dot(u, l.one)/T(len(u)), l.one)
	square := float64(kernel.Dot(u, u)) / float64(len(u))
	inv := T(l.deviation / math.Sqrt(square+channelVar))
	kernel.Scale(u, inv)
	return inv
}

// exponentials sets dst to e^(x - largest x).
func exponentials[T Float](dst, x []T) {
	top := x[0]
	for _, v := range x {
		if v > top {
			top = v
		}
	}
	dst = dst[:len(x)]
	for j, v := range x {
		dst[j] = v - top
	}
	kernel.Exp(dst, dst)
}

func (l *keypointLayer[T]) Forward(in []T, n int) []T {
	size, c, pixels := l.in.Len(), l.in.C, len(l.x)
	for i := range n {
		out := l.out[2*i*c : 2*(i+1)*c]
		kernel.Transpose(l.unit[i*size:(i+1)*size], in[i*size:(i+1)*size], pixels, c)
		for k := range c {
			lo := i*size + k*pixels
			unit, prob := l.unit[lo:lo+pixels], l.prob[lo:lo+pixels]
			l.inv[i*c+k] = l.standardise(unit)
			exponentials(prob, unit)
			kernel.Scale(prob, 1/kernel.Dot(prob, l.one))
			out[k], out[c+k] = kernel.Dot(prob, l.x), kernel.Dot(prob, l.y)
		}
	}
	return l.out[:2*n*c]
}

// Backward: of a channel with the means X and Y, the derivative by what the softmax takes for pixel
// j is g_j = prob_j ((x_j - X) dX + (y_j - Y) dY). All g together are 0, so that the derivative by
// the channel c, which is u after standardising, is (g_j - u_j Σ g·u / Σ u²) ∂u/∂c.
func (l *keypointLayer[T]) Backward(dx, _, dy []T, n int, _ func(lo, hi int)) []T {
	size, c, pixels := l.in.Len(), l.in.C, len(l.x)
	for i := range n {
		out, dOut := l.out[2*i*c:2*(i+1)*c], dy[2*i*c:2*(i+1)*c]
		for k := range c {
			lo := i*size + k*pixels
			d, unit := l.d[k*pixels:(k+1)*pixels], l.unit[lo:lo+pixels]
			dX, dY := dOut[k], dOut[c+k]
			mean := T(out[k]*dX) + T(out[c+k]*dY)
			xs, ys := l.x[:len(d)], l.y[:len(d)]
			for j, p := range l.prob[lo : lo+pixels][:len(d)] {
				d[j] = p * (T(xs[j]*dX) + T(ys[j]*dY) - mean)
			}
			kernel.Axpy(d, -kernel.Dot(d, unit)/T(float64(pixels)*l.deviation*l.deviation), unit)
			kernel.Scale(d, l.inv[i*c+k])
		}
		kernel.Transpose(dx[i*size:(i+1)*size], l.d, c, pixels)
	}
	return dx[:n*size]
}
