package tensor

// An Allocator returns zeroed memory of at least n bytes, aligned to Align bytes. The owner of the Allocator defines
// how long the memory is valid. The memory of spmd.World.Alloc can be sent and received without copies.
type Allocator func(n int) ([]byte, error)

// Heap is the Allocator of the Go heap. It never fails. The garbage collector frees the memory.
func Heap(n int) ([]byte, error) { return New(U8, n).Bytes(), nil }
