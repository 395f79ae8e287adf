//go:build mpi

package mpi

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An arena gives out memory that lies outside Go's heap, so that MPI may keep pointers to it. As
// long as it has room, the memory comes from a reservation, which the other ranks of the node can
// map.
type arena struct {
	// one sparse shared mapping. A page takes memory once it is touched. Set before the first
	// alloc; nil: none
	reserve []byte

	mu     sync.Mutex
	used   int                      // of reserve
	blocks atomic.Pointer[[][]byte] // every private mapping; replaced, never changed, so that holds needs no lock
	rest   []byte                   // what is left of the newest block for small pieces
}

const (
	align     = 64
	blockSize = 1 << 20
)

// alloc returns n zeroed bytes, aligned to 64 bytes.
func (a *arena) alloc(n int) ([]byte, error) {
	if n < 0 || n > 1<<46 {
		return nil, fmt.Errorf("allocate %d bytes: expected 0 or more", n)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	room := (n + align - 1) / align * align
	if room <= len(a.reserve)-a.used {
		b := a.reserve[a.used : a.used+n : a.used+n]
		a.used += room
		return b, nil
	}
	if room > blockSize/4 {
		b, err := a.mapBlock(room)
		if err != nil {
			return nil, err
		}
		return b[:n:n], nil
	}
	if room > len(a.rest) {
		b, err := a.mapBlock(blockSize)
		if err != nil {
			return nil, err
		}
		a.rest = b
	}
	b := a.rest[:n:n]
	a.rest = a.rest[room:]
	return b, nil
}

func (a *arena) mapBlock(n int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes: %w", n, err)
	}
	advise(b)
	var all [][]byte
	if old := a.blocks.Load(); old != nil {
		all = append(all, *old...)
	}
	all = append(all, b)
	a.blocks.Store(&all)
	return b, nil
}

// advise asks for huge pages. This is only a hint: the memory also works without them.
func advise(b []byte) {
	if len(b) >= 1<<21 {
		unix.Madvise(b, unix.MADV_HUGEPAGE)
	}
}

// holds reports whether b lies in the arena.
func (a *arena) holds(b []byte) bool {
	if _, ok := offset(a.reserve, b); ok {
		return true
	}
	if blocks := a.blocks.Load(); blocks != nil {
		for _, block := range *blocks {
			if _, ok := offset(block, b); ok {
				return true
			}
		}
	}
	return false
}

// offset returns the offset of b in block, and whether b lies in block.
func offset(block, b []byte) (int, bool) {
	lo, p := uintptr(unsafe.Pointer(unsafe.SliceData(block))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return int(p - lo), p >= lo && p-lo < uintptr(len(block)) && uintptr(len(b)) <= uintptr(len(block))-(p-lo)
}

// free frees all memory of the arena.
func (a *arena) free() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if blocks := a.blocks.Swap(nil); blocks != nil {
		for _, b := range *blocks {
			unix.Munmap(b)
		}
	}
	if a.reserve != nil {
		unix.Munmap(a.reserve)
	}
	a.reserve, a.rest, a.used = nil, nil, 0
}
