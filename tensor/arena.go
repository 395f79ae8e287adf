package tensor

import (
	"fmt"
	"unsafe"
)

// An Allocator returns zeroed memory of at least n bytes, aligned to Align bytes. Its owner defines
// how long the memory lives. Heap is the allocator of the Go heap. The allocator of a world
// (spmd.World.Alloc) returns memory that communication uses without copies.
type Allocator func(n int) ([]byte, error)

// Heap is the Allocator of the Go heap. It never fails, and nobody frees its memory by hand.
func Heap(n int) ([]byte, error) { return New(U8, n).Bytes(), nil }

// An Arena hands out aligned pieces of one block, for memory that is used and freed together. Not
// for concurrent use.
type Arena struct {
	mem  []byte
	used int
}

// NewArena makes an Arena of one block of size bytes from alloc.
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

// Alloc returns the next n bytes, aligned to Align bytes. It panics if the arena has too few bytes
// left, because callers know all sizes before they make an arena.
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
