package nn

import (
	"math"

	"github.com/rlinf/rlinf/internal/philox"
)

// dropout sets elements to 0 with a given probability, rounded to 16 bits; see Dropout.
type dropout[T Float] struct {
	width, index int // index among the Dropout layers of the network
	probability  float64
}

func (u *dropout[T]) Init(uint64) {}

func (u *dropout[T]) NewWork(w *NetWork[T]) unitWork[T] {
	return &dropoutWork[T]{dropout: u, y: w.rows(u.width), factor: w.rows(u.width)}
}

type dropoutWork[T Float] struct {
	*dropout[T]
	y, factor []T // [rows,width]: the output, and its factors 0 or 1/(1-p)
}

func (w *dropoutWork[T]) Forward(b *Batch[T], x []T) []T {
	if !b.Drop.On {
		return x
	}
	limit := uint32(math.Round(w.probability * (1 << 16)))
	factors := [2]T{T(1 / (1 - w.probability)), 0}
	for i := range b.Rows {
		s := philox.New(b.Drop.Seed, philox.Dropout, uint64(w.index), b.Drop.First+uint64(i))
		row, y := x[i*w.width:(i+1)*w.width], w.y[i*w.width:(i+1)*w.width]
		factor := w.factor[i*w.width : (i+1)*w.width]
		var bits uint32
		for k, v := range row {
			if bits >>= 16; k%2 == 0 {
				bits = s.Uint32()
			}
			f := factors[(bits&0xffff-limit)>>31] // no branch, which would often be mispredicted
			factor[k], y[k] = f, v*f
		}
	}
	return w.y[:b.Rows*w.width]
}

func (w *dropoutWork[T]) Backward(b *Batch[T], _, dy []T, _ func(lo, hi int)) []T {
	dy = dy[:b.Rows*w.width]
	if b.Drop.On {
		for k, f := range w.factor[:len(dy)] {
			dy[k] *= f
		}
	}
	return dy
}
