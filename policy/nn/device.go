package nn

import (
	"errors"

	"github.com/rlinf/rlinf/tensor"
)

// A Device is Ops whose arguments lie in memory of a device, beside the program's memory. Layers keep their activations
// in memory from Vector, which only the Ops can access. Parameters, gradients, inputs and outputs are shared memory:
// memory of the program that has memory of the device beside it. Upload and Download copy from one to the other. So the
// program may read what Ops have written only after a Download.
type Device[T Float] interface {
	Ops[T]
	// Vector returns n zeros for the Ops alone.
	Vector(n int) []T
	// Share makes memory of the program shared memory. On the device it begins with zeros.
	Share(memory []byte) error
	// Upload copies shared memory to the device, and Download copies it from there.
	Upload(memory []byte)
	Download(memory []byte)
	// Clear sets x to 0 on the device.
	Clear(x []T)
	// SumSqs sets each sum to the SumSq of a piece of x. Piece i has the elements [pieces[2i], pieces[2i+1]). sums and
	// pieces are shared memory.
	SumSqs(sums []float64, x []T, pieces []int64)
}

// UseDevice makes the layers of p compute on a device. Call it before Alloc, and before a layer makes its work. Alloc
// shares the parameters and the gradients.
func (p *Params[T]) UseDevice(d Device[T]) { p.ops, p.device = d, d }

// OnDevice reports whether the layers of p compute on a device. Without a device, the memory of layers is the
// program's, and Upload and Download do nothing.
func (p *Params[T]) OnDevice() bool { return p.device != nil }

// Host returns Ops for the program's own memory.
func (p *Params[T]) Host() Ops[T] {
	if p.device != nil {
		return cpu[T]{}
	}
	return p.Ops()
}

// Vector returns n zeros in the memory of layers. The program has no access to them if layers compute on a device.
func (p *Params[T]) Vector(n int) []T {
	if p.device != nil {
		return p.device.Vector(n)
	}
	return Vector[T](n)
}

// Share makes memory of the program memory that layers can use, too; see Device.
func (p *Params[T]) Share(memory []byte) error {
	if p.device != nil {
		return p.device.Share(memory)
	}
	return nil
}

// Shared returns n zeros for layers and for the program. It panics if the device has no memory.
func (p *Params[T]) Shared(n int) []T {
	x := Vector[T](n)
	if err := p.Share(tensor.BytesOf(x)); err != nil {
		panic(err)
	}
	return x
}

// Upload gives layers what the program has written to x, which is shared memory.
func (p *Params[T]) Upload(x []T) {
	if p.device != nil {
		p.device.Upload(tensor.BytesOf(x))
	}
}

// Download gives the program what layers have written to x, which is shared memory.
func (p *Params[T]) Download(x []T) {
	if p.device != nil {
		p.device.Download(tensor.BytesOf(x))
	}
}

// A SquareSums computes sums of squares of pieces of the gradient on a device.
type SquareSums struct {
	pieces []int64
	sums   []float64
}

// NewSquareSums returns the SquareSums of the pieces of p.Grad. Piece i has the elements [pieces[2i], pieces[2i+1]).
func (p *Params[T]) NewSquareSums(pieces []int64) (*SquareSums, error) {
	s := &SquareSums{pieces, make([]float64, len(pieces)/2)}
	if err := errors.Join(p.Share(tensor.BytesOf(s.pieces)), p.Share(tensor.BytesOf(s.sums))); err != nil {
		return nil, err
	}
	p.device.Upload(tensor.BytesOf(s.pieces))
	return s, nil
}

// SquareSums returns the sum of squares of each piece, as Ops.SumSq. The sums are valid until the next call.
func (p *Params[T]) SquareSums(s *SquareSums) []float64 {
	p.device.SumSqs(s.sums, p.Grad, s.pieces)
	p.device.Download(tensor.BytesOf(s.sums))
	return s.sums
}

// Clear sets x, memory of layers, to 0.
func (p *Params[T]) Clear(x []T) {
	if p.device != nil {
		p.device.Clear(x)
	} else {
		clear(x)
	}
}

// Mirror returns shared memory of n elements for copies by Import or Export. Without a device it returns nil.
func (p *Params[T]) Mirror(n int) []T {
	if p.device == nil {
		return nil
	}
	return p.Shared(n)
}

// Import returns x, memory of the program, in the memory of layers: x itself, or on a device a copy in the mirror.
func (p *Params[T]) Import(mirror, x []T) []T {
	if p.device == nil {
		return x
	}
	y := mirror[:len(x):len(x)]
	copy(y, x)
	p.Upload(y)
	return y
}

// Export returns x, memory of layers, in the memory of the program: x itself, or on a device a copy in the mirror.
func (p *Params[T]) Export(mirror, x []T) []T {
	if p.device == nil {
		return x
	}
	y := mirror[:len(x):len(x)]
	p.device.CopyColumns(y, len(x), x, len(x), len(x), 1)
	p.Download(y)
	return y
}
