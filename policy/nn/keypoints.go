package nn

import (
	"math"

	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// A spotter computes the position of the largest pixels in a channel (spatial softmax; Levine et al. 2016,
// arXiv:1504.00702, section 4.2). The position is the mean x and y of the pixels, in [-1, 1], weighted by the softmax
// of the channel. Before the softmax, the spotter scales the channel to mean 0 and a fixed deviation over the pixels.
// The largest pixels then have nearly all of the weight, for any scale of the network's weights.
type spotter[T Float] struct {
	deviation float64
	x, y, one []T // [H·W]: x and y of the pixels, and ones
}

func newSpotter[T Float](in Image, deviation float64) spotter[T] {
	s := spotter[T]{deviation: deviation}
	for i := range in.H * in.W {
		s.one = append(s.one, 1)
		s.x, s.y = append(s.x, pixelPosition[T](i%in.W, in.W)), append(s.y, pixelPosition[T](i/in.W, in.H))
	}
	return s
}

// channelVar is added to the variance of a channel, so that a constant channel becomes 0, not NaN.
const channelVar = 1e-5

// spot standardises the channel u, [H·W], in place: u becomes the logits scale·(u - mean). It sets prob to the softmax
// of the logits, and returns scale and the mean position (x, y), weighted by prob.
func (s *spotter[T]) spot(prob, u []T) (x, y, scale T) {
	kernel.Axpy(u, -kernel.Dot(u, s.one)/T(len(u)), s.one)
	square := float64(kernel.Dot(u, u)) / float64(len(u))
	scale = T(s.deviation / math.Sqrt(square+channelVar))
	kernel.Scale(u, scale)
	exponentials(prob, u)
	kernel.Scale(prob, 1/kernel.Dot(prob, s.one))
	return kernel.Dot(prob, s.x), kernel.Dot(prob, s.y), scale
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

// spotGrad sets d to the gradient of the channel. prob, u, x, y and scale are from spot, and dX and dY are the
// gradients of x and y. Pixel j has the position (x_j, y_j), and N is the number of pixels. The gradients of logit j
// and of pixel j are
//
//	g_j = prob_j ((x_j - x) dX + (y_j - y) dY),    d_j = scale·(g_j - u_j Σ g·u / (N·deviation²))
func (s *spotter[T]) spotGrad(d, prob, u []T, x, y, scale, dX, dY T) {
	mean := T(x*dX) + T(y*dY)
	xs, ys := s.x[:len(d)], s.y[:len(d)]
	for j, p := range prob[:len(d)] {
		d[j] = p * (T(xs[j]*dX) + T(ys[j]*dY) - mean)
	}
	kernel.Axpy(d, -kernel.Dot(d, u)/T(float64(len(d))*s.deviation*s.deviation), u)
	kernel.Scale(d, scale)
}

// A keypoints layer computes a position for each channel of an image, with a spotter. The output is all x, then all y.
type keypoints[T Float] struct {
	in        Image
	deviation float64
}

func (k *keypoints[T]) Init(uint64) {}

func (k *keypoints[T]) NewWork(w *NetWork[T]) unitWork[T] {
	return &keypointWork[T]{
		keypoints: k, spotter: newSpotter[T](k.in, k.deviation),
		out: w.rows(2 * k.in.C), logits: w.rows(k.in.Len()), prob: w.rows(k.in.Len()), scale: w.rows(k.in.C),
		d: Vector[T](k.in.Len()),
	}
}

type keypointWork[T Float] struct {
	*keypoints[T]
	spotter[T]
	out          []T
	logits, prob []T // [n, C, H·W]
	scale        []T // [n, C], the scale that spot returns for each channel
	d            []T // [C, H·W], the gradient of one image
}

func (l *keypointWork[T]) Forward(b *Batch[T], in []T) []T {
	size, c, pixels := l.in.Len(), l.in.C, len(l.one)
	for i := range b.Rows {
		out := l.out[2*i*c : 2*(i+1)*c]
		kernel.Transpose(l.logits[i*size:(i+1)*size], in[i*size:(i+1)*size], pixels, c)
		for k := range c {
			lo := i*size + k*pixels
			out[k], out[c+k], l.scale[i*c+k] = l.spot(l.prob[lo:lo+pixels], l.logits[lo:lo+pixels])
		}
	}
	return l.out[:2*b.Rows*c]
}

func (l *keypointWork[T]) Backward(b *Batch[T], dx, dy []T, _ func(lo, hi int)) []T {
	if dx == nil {
		return nil
	}
	size, c, pixels := l.in.Len(), l.in.C, len(l.one)
	for i := range b.Rows {
		out, dOut := l.out[2*i*c:2*(i+1)*c], dy[2*i*c:2*(i+1)*c]
		for k := range c {
			lo := i*size + k*pixels
			l.spotGrad(l.d[k*pixels:(k+1)*pixels], l.prob[lo:lo+pixels], l.logits[lo:lo+pixels], out[k],
				out[c+k], l.scale[i*c+k], dOut[k], dOut[c+k])
		}
		kernel.Transpose(dx[i*size:(i+1)*size], l.d, c, pixels)
	}
	return dx
}
