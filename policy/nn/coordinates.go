package nn

// A coordinates layer adds two channels to images: the x and y of each pixel, from -1 to 1. The next layers can then
// distinguish equal objects by their positions (Liu et al. 2018, arXiv:1807.03247).
type coordinates[T Float] struct {
	in   Image
	grid PixelGrid[T]
}

// pixelPosition returns the position of the centre of pixel i in a line of n pixels, from -1 to 1.
func pixelPosition[T Float](i, n int) T { return T(2*i+1)/T(n) - 1 }

func (c *coordinates[T]) shape() Image { return Image{c.in.H, c.in.W, c.in.C + 2} }
func (c *coordinates[T]) Init(uint64)  {}

func (c *coordinates[T]) NewWork(w *NetWork[T]) unitWork[T] {
	return &coordinatesWork[T]{c, w.rows(c.shape().Len())}
}

type coordinatesWork[T Float] struct {
	*coordinates[T]
	out []T
}

func (l *coordinatesWork[T]) Forward(b *Batch[T], in []T) []T {
	c, to := l.in.C, l.out
	for range b.Rows {
		for i, x := range l.grid.X {
			copy(to[:c], in[:c])
			to[c], to[c+1] = x, l.grid.Y[i]
			to, in = to[c+2:], in[c:]
		}
	}
	return l.out[:b.Rows*l.shape().Len()]
}

func (l *coordinatesWork[T]) Backward(b *Batch[T], dx, dy []T, _ func(lo, hi int)) []T {
	if dx == nil {
		return nil
	}
	c, to := l.in.C, dx
	for range b.Rows * l.in.H * l.in.W {
		copy(to[:c], dy[:c])
		to, dy = to[c:], dy[c+2:]
	}
	return dx
}
