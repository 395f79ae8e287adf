package tensor

import (
	"fmt"
	"unsafe"
)

// An Allocator returns zeroed memory of at least n bytes that starts on Align bytes and lives as
// long as its owner says: the heap's (Heap), or that of a world (spmd.World.Alloc), which
// communication can use without copying.
type Allocator func(n int) ([]byte, error)

// Heap is the Allocator of the Go heap: never fails, never freed by hand.
func Heap(n int) ([]byte, error) { return New(U8, n).Bytes(), nil }

// An Arena hands out aligned pieces of one block, for memory that lives and dies together. Not for
// concurrent use.
type Arena struct {
	mem  []byte
	used int
}

// NewArena takes one block of size bytes from alloc.
func NewArena(size int, alloc Allocator) (*Arena, error) {
	mem, err := alloc(aligned(size))
	if err != nil {
		return nil, fmt.Errorf("arena of %d bytes: %w", size, err)
	}
	if uintptr(unsafe.Pointer(unsafe.SliceData(mem)))%Align != 0 && len(mem) > 0 {
		panic("tensor: allocator gave memory that is not aligned")
	}
	return &Arena{mem: mem}, nil
}

// Alloc returns the next n bytes, on Align bytes. It panics when the arena is used up: sizes are
// known before it is made.
func (a *Arena) Alloc(n int) []byte {
	if a.used+n > len(a.mem) {
		panic(fmt.Sprintf("tensor: arena of %d bytes, %d used, %d wanted", len(a.mem), a.used, n))
	}
	b := a.mem[a.used : a.used+n : a.used+n]
	a.used += aligned(n)
	return b
}

// Tensor returns a zeroed tensor in the arena.
func (a *Arena) Tensor(dtype DType, shape ...int) Tensor {
	return Of(a.Alloc(count(shape)*dtype.Size()), dtype, shape...)
}
