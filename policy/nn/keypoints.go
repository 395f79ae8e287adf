package nn

// A PixelGrid has the positions of the pixels of an image, for a spatial softmax (Levine et al. 2016, arXiv:1504.00702,
// section 4.2). A spatial softmax computes the position of the largest pixels in a channel. The position is the mean x
// and y of the pixels, in [-1, 1], weighted by the softmax of the channel. Before the softmax, the channel is scaled to
// mean 0 and a fixed deviation over the pixels. The largest pixels then have nearly all of the weight, for any scale of
// the network's weights.
type PixelGrid[T Float] struct {
	Deviation float64
	X, Y, One []T // [H·W]: x and y of the pixels, and ones
}

func newGrid[T Float](in Image, deviation float64) PixelGrid[T] {
	g := PixelGrid[T]{Deviation: deviation}
	for i := range in.H * in.W {
		g.One = append(g.One, 1)
		g.X, g.Y = append(g.X, pixelPosition[T](i%in.W, in.W)), append(g.Y, pixelPosition[T](i/in.W, in.H))
	}
	return g
}

// A keypoints layer computes a position for each channel of an image, by Ops.SpatialSoftmax. The output has all x, then
// all y.
type keypoints[T Float] struct {
	p         *Params[T]
	in        Image
	deviation float64
}

func (k *keypoints[T]) Init(uint64) {}

func (k *keypoints[T]) NewWork(w *NetWork[T]) unitWork[T] {
	return &keypointWork[T]{
		keypoints: k, grid: newGrid[T](k.in, k.deviation), out: w.rows(2 * k.in.C), logits: w.rows(k.in.Len()),
		prob: w.rows(k.in.Len()), scale: w.rows(k.in.C),
	}
}

type keypointWork[T Float] struct {
	*keypoints[T]
	grid         PixelGrid[T]
	out          []T
	logits, prob []T // [n, C, H·W]; Backward replaces prob with the gradient
	scale        []T // [n, C], the factor of each channel
}

func (l *keypointWork[T]) Forward(b *Batch[T], in []T) []T {
	n, c, pixels, o := b.Rows, l.in.C, len(l.grid.One), l.p.Ops()
	size := n * l.in.Len()
	o.Transpose(l.logits[:size], in[:size], pixels, c, n)
	o.SpatialSoftmax(l.out[:2*n*c], l.scale[:n*c], l.prob[:size], l.logits[:size], &l.grid, n, c)
	return l.out[:2*n*c]
}

func (l *keypointWork[T]) Backward(b *Batch[T], dx, dy []T, _ func(lo, hi int)) []T {
	if dx == nil {
		return nil
	}
	n, c, pixels, o := b.Rows, l.in.C, len(l.grid.One), l.p.Ops()
	size := n * l.in.Len()
	o.SpatialSoftmaxGrad(l.prob[:size], l.logits[:size], l.out[:2*n*c], l.scale[:n*c], dy, &l.grid, n, c)
	o.Transpose(dx[:size], l.prob[:size], c, pixels, n)
	return dx
}
