package nn

import (
	"math"

	"github.com/rlinf/rlinf/internal/philox"
)

// spatial computes weighted sums over the pixels of each channel of an image; see SpatialEmbed. Sum f of channel c is
//
//	y[c,f] = Σ_p x[p,c] W[c,p,f]
type spatial[T Float] struct {
	p      *Params[T]
	in     Image
	sums   int
	weight int // field of p, [C·pixels, sums]
}

func (u *spatial[T]) pixels() int { return u.in.H * u.in.W }

// Init draws weights of variance 1 from a uniform distribution.
func (u *spatial[T]) Init(seed uint64) {
	s := philox.New(seed, philox.Init, uint64(u.weight), 0)
	w := u.p.Of(u.weight)
	for i := range w {
		w[i] = T(math.Sqrt(3) * (2*float64(s.Uint32())/(1<<32) - 1))
	}
}

func (u *spatial[T]) NewWork(w *NetWork[T]) unitWork[T] {
	return &spatialWork[T]{spatial: u, x: w.rows(u.in.Len()), y: w.rows(u.in.C * u.sums), part: w.rows(u.sums),
		turned: Vector[T](u.pixels() * u.sums)}
}

type spatialWork[T Float] struct {
	*spatial[T]
	x      []T // [C,rows,pixels]; Backward replaces it by its gradient
	y      []T // [rows,C,sums]
	part   []T // [rows,sums] of one channel
	turned []T // [sums,pixels], the transpose of the weights of one channel
}

// channel returns the pixels of channel k of n images, [n,pixels], and the range of its weights.
func (w *spatialWork[T]) channel(k, n int) (x []T, lo, hi int) {
	pixels := w.pixels()
	return w.x[k*n*pixels : (k+1)*n*pixels], k * pixels * w.sums, (k + 1) * pixels * w.sums
}

func (w *spatialWork[T]) Forward(b *Batch[T], x []T) []T {
	n, c, o := b.Rows, w.in.C, w.p.Ops()
	o.Transpose(w.x[:n*w.in.Len()], x[:n*w.in.Len()], n*w.pixels(), c, 1)
	part, weight := w.part[:n*w.sums], w.p.Of(w.weight)
	for k := range c {
		pixels, lo, hi := w.channel(k, n)
		o.Product(part, pixels, weight[lo:hi], nil, n, w.sums, w.pixels(), false)
		o.CopyColumns(w.y[k*w.sums:], c*w.sums, part, w.sums, w.sums, n)
	}
	return w.y[:n*c*w.sums]
}

func (w *spatialWork[T]) Backward(b *Batch[T], dx, dy []T, ready func(lo, hi int)) []T {
	n, c, o := b.Rows, w.in.C, w.p.Ops()
	part, weight, grad := w.part[:n*w.sums], w.p.Of(w.weight), w.p.GradOf(w.weight)
	for k := range c {
		pixels, lo, hi := w.channel(k, n)
		o.CopyColumns(part, w.sums, dy[k*w.sums:], c*w.sums, w.sums, n)
		o.Gradient(grad[lo:hi], pixels, part, w.pixels(), w.sums, n, true)
		if dx != nil {
			o.Transpose(w.turned, weight[lo:hi], w.pixels(), w.sums, 1)
			o.Product(pixels, part, w.turned, nil, n, w.pixels(), w.sums, false)
		}
	}
	if dx != nil {
		o.Transpose(dx[:n*w.in.Len()], w.x[:n*w.in.Len()], c, n*w.pixels(), 1)
	}
	ready(w.p.Range(w.weight, w.weight))
	return dx
}
