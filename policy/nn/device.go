package nn

import (
	"slices"
	"unsafe"
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
	// Upload copies x to the device, and Download copies it from there. Clear sets x to 0 on the device.
	Upload(x []T)
	Download(x []T)
	Clear(x []T)
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
	if p.device != nil {
		memory := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(x))), n*sizeOf[T]())
		if err := p.device.Share(memory); err != nil {
			panic(err)
		}
	}
	return x
}

// Upload gives layers what the program has written to x, which is shared memory.
func (p *Params[T]) Upload(x []T) {
	if p.device != nil {
		p.device.Upload(x)
	}
}

// Download gives the program what layers have written to x, which is shared memory.
func (p *Params[T]) Download(x []T) {
	if p.device != nil {
		p.device.Download(x)
	}
}

// Clear sets x, memory of layers, to 0.
func (p *Params[T]) Clear(x []T) {
	if p.device != nil {
		p.device.Clear(x)
	} else {
		clear(x)
	}
}

// Import returns x, memory of the program, in the memory of layers: x itself, or a copy in shared memory on a device.
// It keeps the memory of the copy in held.
func (p *Params[T]) Import(held *[]T, x []T) []T {
	if p.device == nil {
		return x
	}
	if len(*held) < len(x) {
		*held = p.Shared(len(x))
	}
	y := (*held)[:len(x)]
	copy(y, x)
	p.device.Upload(y)
	return slices.Clip(y)
}
