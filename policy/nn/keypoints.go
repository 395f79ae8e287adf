package nn

// A Grid has the positions of the pixels of an image, for a spatial softmax (Levine et al. 2016, arXiv:1504.00702,
// section 4.2): the position of the largest pixels in a channel. The position is the mean x and y of the pixels, in
// [-1, 1], weighted by the softmax of the channel. Before the softmax, the channel is scaled to mean 0 and a fixed
// deviation over the pixels. The largest pixels then have nearly all of the weight, for any scale of the network's
// weights.
type Grid[T Float] struct {
	Deviation float64
	X, Y, One []T // [H·W]: x and y of the pixels, and ones
}

func newGrid[T Float](in Image, deviation float64) Grid[T] {
	g := Grid[T]{Deviation: deviation}
	for i := range in.H * in.W {
		g.One = append(g.One, 1)
		g.X, g.Y = append(g.X, pixelPosition[T](i%in.W, in.W)), append(g.Y, pixelPosition[T](i/in.W, in.H))
	}
	return g
}

// A keypoints layer computes a position for each channel of an image: Ops.SpatialSoftmax. The output is all x, then all
// y.
type keypoints[T Float] struct {
	p         *Params[T]
	in        Image
	deviation float64
}

func (k keypoints[T]) Shape() Image { return Image{1, 1, 2 * k.in.C} }
func (k keypoints[T]) Init(uint64)  {}

func (k keypoints[T]) NewWork(maxRows int, _ *ConvWork[T]) layerWork[T] {
	return &keypointLayer[T]{
		keypoints: k, grid: newGrid[T](k.in, k.deviation), out: Vector[T](maxRows * 2 * k.in.C),
		logits: Vector[T](maxRows * k.in.Len()), prob: Vector[T](maxRows * k.in.Len()),
		scale: Vector[T](maxRows * k.in.C),
	}
}

type keypointLayer[T Float] struct {
	keypoints[T]
	grid         Grid[T]
	out          []T
	logits, prob []T // [n, C, H·W]; Backward replaces prob with the gradient
	scale        []T // [n, C], the factor of each channel
}

func (l *keypointLayer[T]) Forward(in []T, n int) []T {
	size, c, pixels, o := n*l.in.Len(), l.in.C, len(l.grid.One), l.p.Ops()
	o.Transpose(l.logits[:size], in[:size], pixels, c, n)
	o.SpatialSoftmax(l.out[:2*n*c], l.scale[:n*c], l.prob[:size], l.logits[:size], &l.grid, n, c)
	return l.out[:2*n*c]
}

func (l *keypointLayer[T]) Backward(dx, _, dy []T, n int, _ func(lo, hi int)) []T {
	size, c, pixels, o := n*l.in.Len(), l.in.C, len(l.grid.One), l.p.Ops()
	o.SpatialSoftmaxGrad(l.prob[:size], l.logits[:size], l.out[:2*n*c], l.scale[:n*c], dy, &l.grid, n, c)
	o.Transpose(dx[:size], l.prob[:size], c, pixels, n)
	return dx[:size]
}
