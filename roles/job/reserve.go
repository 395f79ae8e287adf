package job

import (
	"fmt"

	"github.com/rlinf/rlinf/internal/figures"
	"golang.org/x/sys/unix"
)

// A Reserve allocates memory for parameters that are only checked, within the available memory Have. The system
// provides a page when it is first written, so large parameters cost no time. An allocation beyond the available memory
// fails with a Shortage.
type Reserve struct {
	Have   Available
	need   int64
	pieces [][]byte
}

// Alloc is a tensor.Allocator. The memory is valid until Free.
func (r *Reserve) Alloc(n int) ([]byte, error) {
	if r.need += int64(n); r.need > r.Have.Free {
		return nil, Shortage{r.need, r.Have}
	}
	b, err := unix.Mmap(-1, 0, max(n, 1), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON|unix.MAP_NORESERVE)
	if err != nil {
		return nil, Shortage{r.need, r.Have}
	}
	r.pieces = append(r.pieces, b)
	return b[:n], nil
}

// Need returns the number of bytes that Alloc was asked for.
func (r *Reserve) Need() int64 { return r.need }

// Free frees the memory. Nothing may use it afterwards.
func (r *Reserve) Free() {
	for _, b := range r.pieces {
		unix.Munmap(b)
	}
	r.pieces = nil
}

// A Shortage is the error of an allocation that needs more memory than is available.
type Shortage struct {
	need int64
	have Available
}

// Error says how much memory is needed and how much is available.
func (s Shortage) Error() string {
	return fmt.Sprintf("at least %s are needed, and %v", figures.MiB(s.need), s.have)
}
