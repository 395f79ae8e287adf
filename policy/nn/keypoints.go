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
	x, y       []T // [H·W], where pixels are
}

// channelVar is added to the variance of a channel, so that one without any stays 0.
const channelVar = 1e-5

// standardise replaces u by its difference from the mean, scaled to a standard deviation, and
// returns the scale.
func standardise[T Float](u []T, deviation float64) T {
	var sum, square float64
	for _, v := range u {
		sum += float64(v)
	}
	mean := sum / float64(len(u))
	for _, v := range u {
		square += (float64(v) - mean) * (float64(v) - mean)
	}
	inv := deviation / math.Sqrt(square/float64(len(u))+channelVar)
	for i, v := range u {
		u[i] = T((float64(v) - mean) * inv)
	}
	return T(inv)
}

func (l *keypointLayer[T]) Forward(in []T, n int) []T {
	size, c, pixels := l.in.Len(), l.in.C, len(l.x)
	for i := range n {
		unit, prob, out := l.unit[i*size:(i+1)*size], l.prob[i*size:(i+1)*size], l.out[2*i*c:2*(i+1)*c]
		kernel.Transpose(unit, in[i*size:(i+1)*size], pixels, c)
		for k := range c {
			l.inv[i*c+k] = standardise(unit[k*pixels:(k+1)*pixels], l.deviation)
		}
		kernel.LogSoftmax(prob, unit, c, pixels)
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
			var along T
			for j, p := range l.prob[lo : lo+pixels] {
				d[j] = p * (T((l.x[j]-out[k])*dOut[k]) + T((l.y[j]-out[c+k])*dOut[c+k]))
				along += T(d[j] * unit[j])
			}
			along /= T(float64(pixels) * l.deviation * l.deviation)
			for j, u := range unit {
				d[j] = (d[j] - T(u*along)) * l.inv[i*c+k]
			}
		}
		kernel.Transpose(dx[i*size:(i+1)*size], l.d, c, pixels)
	}
	return dx[:n*size]
}
