package nn

import (
	"math"

	"github.com/rlinf/rlinf/policy/nn/kernel"
)

func (o cpu[T]) Modulate(y, x, film []T, s Image, rows int) {
	c := s.C
	for i := range rows {
		gamma, beta := film[2*i*c:][:c], film[(2*i+1)*c:][:c]
		for range s.H * s.W {
			to, from := y[:len(gamma)], x[:len(gamma)]
			y, x = y[c:], x[c:]
			beta := beta[:len(gamma)]
			for k, v := range from {
				to[k] = v + T(gamma[k]*v) + beta[k]
			}
		}
	}
}

func (o cpu[T]) ModulateGrad(dFilm, d, x, film []T, s Image, rows int) {
	c := s.C
	clear(dFilm[:2*rows*c])
	for i := range rows {
		gamma, dGamma := film[2*i*c:][:c], dFilm[2*i*c:][:c]
		kernel.ColSum(dFilm[(2*i+1)*c:][:c], d[:s.H*s.W*c], s.H*s.W, c, false)
		for range s.H * s.W {
			to, from, dGamma := d[:len(gamma)], x[:len(gamma)], dGamma[:len(gamma)]
			d, x = d[c:], x[c:]
			for k, v := range to {
				dGamma[k] += T(v * from[k])
				to[k] = v + T(gamma[k]*v)
			}
		}
	}
}

// channelVar is added to the variance of a channel, so that a constant channel becomes 0, not NaN.
const channelVar = 1e-5

func (o cpu[T]) SpatialSoftmax(y, scale, prob, u []T, g *PixelGrid[T], n, c int) {
	pixels := len(g.One)
	for i := range n {
		for k := range c {
			at := i*c + k
			lo, hi := at*pixels, (at+1)*pixels
			y[2*i*c+k], y[(2*i+1)*c+k], scale[at] = spot(g, prob[lo:hi], u[lo:hi])
		}
	}
}

// spot standardises the channel u, [H·W], in place: u becomes the logits scale·(u - mean). It sets prob to the softmax
// of the logits. It returns scale, and the mean position (x, y) of the pixels, weighted by prob.
func spot[T Float](g *PixelGrid[T], prob, u []T) (x, y, scale T) {
	kernel.Axpy(u, -kernel.Dot(u, g.One)/T(len(u)), g.One)
	square := float64(kernel.Dot(u, u)) / float64(len(u))
	scale = T(g.Deviation / math.Sqrt(square+channelVar))
	kernel.Scale(u, scale)
	exponentials(prob, u)
	kernel.Scale(prob, 1/kernel.Dot(prob, g.One))
	return kernel.Dot(prob, g.X), kernel.Dot(prob, g.Y), scale
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

func (o cpu[T]) SpatialSoftmaxGrad(prob, u, y, scale, dy []T, g *PixelGrid[T], n, c int) {
	pixels := len(g.One)
	for i := range n {
		for k := range c {
			at, x := i*c+k, 2*i*c+k
			lo, hi := at*pixels, (at+1)*pixels
			spotGrad(g, prob[lo:hi], u[lo:hi], y[x], y[x+c], scale[at], dy[x], dy[x+c])
		}
	}
}

// spotGrad replaces prob with the gradient d of the channel. prob, u, x, y and scale are from spot, and dX and dY are
// the gradients of x and y. Pixel j has the position (x_j, y_j), and N is the number of pixels. The gradients of logit
// j and of pixel j are
//
//	g_j = prob_j ((x_j - x) dX + (y_j - y) dY),    d_j = scale·(g_j - u_j Σ g·u / (N·deviation²))
func spotGrad[T Float](g *PixelGrid[T], prob, u []T, x, y, scale, dX, dY T) {
	mean := T(x*dX) + T(y*dY)
	xs, ys, d := g.X[:len(prob)], g.Y[:len(prob)], prob
	for j, p := range prob {
		d[j] = p * (T(xs[j]*dX) + T(ys[j]*dY) - mean)
	}
	kernel.Axpy(d, -kernel.Dot(d, u)/T(float64(len(d))*g.Deviation*g.Deviation), u)
	kernel.Scale(d, scale)
}
