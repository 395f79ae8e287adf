//go:build mpi

package mpi

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An arena gives out memory that lies outside Go's heap, so that MPI may keep pointers to it.
type arena struct {
	mu     sync.Mutex
	blocks atomic.Pointer[[][]byte] // every mapping; replaced, never changed, so that holds needs no lock
	rest   []byte                   // what is left of the newest block for small pieces
}

const (
	align     = 64
	blockSize = 1 << 20
)

// alloc returns n zeroed bytes that start on 64 bytes.
func (a *arena) alloc(n int) ([]byte, error) {
	if n < 0 || n > 1<<46 {
		return nil, fmt.Errorf("allocate %d bytes: want 0 or more", n)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	room := (n + align - 1) / align * align
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
	if n >= 1<<21 {
		unix.Madvise(b, unix.MADV_HUGEPAGE) // a hint: without it the memory is as good
	}
	var all [][]byte
	if old := a.blocks.Load(); old != nil {
		all = append(all, *old...)
	}
	all = append(all, b)
	a.blocks.Store(&all)
	return b, nil
}

// holds reports whether b lies in the arena.
func (a *arena) holds(b []byte) bool {
	blocks := a.blocks.Load()
	if blocks == nil {
		return false
	}
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	for _, block := range *blocks {
		lo := uintptr(unsafe.Pointer(unsafe.SliceData(block)))
		if p >= lo && p < lo+uintptr(len(block)) {
			return true
		}
	}
	return false
}

// free gives everything back.
func (a *arena) free() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if blocks := a.blocks.Swap(nil); blocks != nil {
		for _, b := range *blocks {
			unix.Munmap(b)
		}
	}
	a.rest = nil
}
