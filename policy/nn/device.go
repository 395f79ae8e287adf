package nn

import (
	"errors"
	"os"
	"unsafe"

	"github.com/rlinf/rlinf/tensor"
)

// A Device has Ops that compute on memory of a device, beside the program's memory. Layers keep their activations in
// memory from Vector, which only the Ops can access. Parameters, gradients, inputs and outputs are shared memory:
// memory of the program with a copy on the device. Upload and Download copy from one to the other. The program may read
// what Ops have written only after a Download.
type Device[T Float] interface {
	Ops[T]
	// Vector returns n zeros that only the Ops can access.
	Vector(n int) []T
	// Share makes memory of the program shared memory. On the device it holds zeros at first.
	Share(memory []byte) error
	// Upload copies shared memory from the program to the device. Download copies it from the device to the program.
	Upload(memory []byte)
	Download(memory []byte)
	// Send starts an Upload. The program must not change the memory before the end of a later Upload or Download, or of
	// the Fetched for a later Fetch.
	Send(memory []byte)
	// Fetch starts a copy of memory, which is not empty, from the device to the program. Ops go on, and must not change
	// the memory before the Fetched for this Fetch. The calls of Fetched wait for those of Fetch in turn.
	Fetch(memory []byte)
	Fetched()
	// Clear sets x to 0 on the device.
	Clear(x []T)
	// SumSqs sets each sum to the SumSq of a piece of x. Piece i has the elements [pieces[2i], pieces[2i+1]). sums and
	// pieces are shared memory.
	SumSqs(sums []float64, x []T, pieces []int64)
}

// UseDevice makes the layers of p compute on a device. Call it before Alloc, and before a layer makes its work. Alloc
// shares the parameters and the gradients.
func (p *Params[T]) UseDevice(d Device[T]) { p.ops, p.device = d, d }

// Device returns the device on which the layers of p compute, or nil.
func (p *Params[T]) Device() Device[T] { return p.device }

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

// Share makes memory of the program accessible to layers, too; see Device.
func (p *Params[T]) Share(memory []byte) error {
	if p.device != nil {
		return p.device.Share(memory)
	}
	return nil
}

// Sharing returns an Allocator of memory that layers can access, too. It takes the memory from alloc. On a device a
// piece has whole pages of its own, because these are copied faster.
func (p *Params[T]) Sharing(alloc tensor.Allocator) tensor.Allocator {
	if p.device == nil {
		return alloc
	}
	return func(n int) ([]byte, error) {
		page := os.Getpagesize()
		whole := (n + page - 1) &^ (page - 1)
		b, err := alloc(whole + page)
		if err != nil {
			return nil, err
		}
		skip := -int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) & (page - 1)
		b = b[skip:][:n:whole]
		return b, p.device.Share(b)
	}
}

// Shared returns n zeros that both layers and the program can access. It panics if the device has no memory left.
func (p *Params[T]) Shared(n int) []T {
	b, err := p.Sharing(tensor.Heap)(n * sizeOf[T]())
	if err != nil {
		panic(err)
	}
	return flat[T](b, n)
}

// Upload makes what the program has written to x visible to layers. x is shared memory.
func (p *Params[T]) Upload(x []T) {
	if p.device != nil {
		p.device.Upload(tensor.BytesOf(x))
	}
}

// Download makes what layers have written to x visible to the program. x is shared memory.
func (p *Params[T]) Download(x []T) {
	if p.device != nil {
		p.device.Download(tensor.BytesOf(x))
	}
}

// Send starts an Upload of x; see Device. Without a device, Send, Fetch and Fetched do nothing.
func (p *Params[T]) Send(x []T) {
	if p.device != nil {
		p.device.Send(tensor.BytesOf(x))
	}
}

// Fetch starts a Download of x, which is not empty, and Fetched waits for it; see Device.
func (p *Params[T]) Fetch(x []T) {
	if p.device != nil {
		p.device.Fetch(tensor.BytesOf(x))
	}
}

// Fetched waits for the first Fetch for which no Fetched has waited.
func (p *Params[T]) Fetched() {
	if p.device != nil {
		p.device.Fetched()
	}
}

// A SquareSums computes sums of squares of pieces of the gradient on a device.
type SquareSums struct {
	pieces []int64
	sums   []float64
}

// NewSquareSums returns SquareSums for pieces of p.Grad. Piece i has the elements [pieces[2i], pieces[2i+1]).
func (p *Params[T]) NewSquareSums(pieces []int64) (*SquareSums, error) {
	s := &SquareSums{pieces, make([]float64, len(pieces)/2)}
	if err := errors.Join(p.Share(tensor.BytesOf(s.pieces)), p.Share(tensor.BytesOf(s.sums))); err != nil {
		return nil, err
	}
	p.device.Upload(tensor.BytesOf(s.pieces))
	return s, nil
}

// SquareSums returns the sum of squares of each piece, as Ops.SumSq computes it. The sums are valid until the next
// call.
func (p *Params[T]) SquareSums(s *SquareSums) []float64 {
	p.device.SumSqs(s.sums, p.Grad, s.pieces)
	p.device.Download(tensor.BytesOf(s.sums))
	return s.sums
}

// Clear sets x to 0. x is memory of layers.
func (p *Params[T]) Clear(x []T) {
	if p.device != nil {
		p.device.Clear(x)
	} else {
		clear(x)
	}
}

// Mirror returns n elements of shared memory, for Import or Export. Without a device it returns nil.
func (p *Params[T]) Mirror(n int) []T {
	if p.device == nil {
		return nil
	}
	return p.Shared(n)
}

// Import makes x, memory of the program, accessible to layers. It returns x itself, or on a device a copy in mirror.
func (p *Params[T]) Import(mirror, x []T) []T {
	if p.device == nil {
		return x
	}
	y := mirror[:len(x):len(x)]
	copy(y, x)
	p.Upload(y)
	return y
}

// Export makes x, memory of layers, accessible to the program. It returns x itself, or on a device a copy in mirror.
func (p *Params[T]) Export(mirror, x []T) []T {
	if p.device == nil {
		return x
	}
	y := mirror[:len(x):len(x)]
	p.device.CopyColumns(y, len(x), x, len(x), len(x), 1)
	p.Download(y)
	return y
}
