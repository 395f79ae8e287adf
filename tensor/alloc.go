package tensor

// An Allocator returns zeroed memory of at least n bytes, aligned to Align bytes. The owner of the Allocator defines
// how long the memory lives. Heap is the allocator of the Go heap. The allocator of a world (spmd.World.Alloc) returns
// memory that communication uses without copies.
type Allocator func(n int) ([]byte, error)

// Heap is the Allocator of the Go heap. It never fails, and nobody frees its memory by hand.
func Heap(n int) ([]byte, error) { return New(U8, n).Bytes(), nil }
