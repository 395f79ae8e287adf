package nn

// A coordinates layer adds two channels to images: the x and y of each pixel, from -1 to 1. So the next layers can
// distinguish equal objects by their positions (Liu et al. 2018, arXiv:1807.03247).
type coordinates[T Float] struct {
	in   Image
	x, y []T // the x of each column, and the y of each row
}

func newCoordinates[T Float](in Image) *coordinates[T] {
	c := &coordinates[T]{in: in}
	for i := range in.W {
		c.x = append(c.x, pixelPosition[T](i, in.W))
	}
	for i := range in.H {
		c.y = append(c.y, pixelPosition[T](i, in.H))
	}
	return c
}

// pixelPosition returns the position of the centre of pixel i in a line of n pixels, from -1 to 1.
func pixelPosition[T Float](i, n int) T { return T(2*i+1)/T(n) - 1 }

func (c *coordinates[T]) Shape() Image { return Image{c.in.H, c.in.W, c.in.C + 2} }
func (c *coordinates[T]) Init(uint64)  {}

func (c *coordinates[T]) NewWork(maxRows int, _ *ConvWork[T]) layerWork[T] {
	return &coordinatesLayer[T]{c, Vector[T](maxRows * c.Shape().Len())}
}

type coordinatesLayer[T Float] struct {
	*coordinates[T]
	out []T
}

func (l *coordinatesLayer[T]) Forward(in []T, n int) []T {
	c, to := l.in.C, l.out
	for range n {
		for _, y := range l.y {
			for _, x := range l.x {
				copy(to[:c], in[:c])
				to[c], to[c+1] = x, y
				to, in = to[c+2:], in[c:]
			}
		}
	}
	return l.out[:n*l.Shape().Len()]
}

func (l *coordinatesLayer[T]) Backward(dx, _, dy []T, n int, _ func(lo, hi int)) []T {
	c, to := l.in.C, dx
	for range n * l.in.H * l.in.W {
		copy(to[:c], dy[:c])
		to, dy = to[c:], dy[c+2:]
	}
	return dx[:n*l.in.Len()]
}
