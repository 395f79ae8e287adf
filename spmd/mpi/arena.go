//go:build mpi

package mpi

/*
#include <sys/mman.h>
*/
import "C"

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/rlinf/rlinf/spmd/internal/region"
)

// An arena allocates memory outside Go's heap, so that MPI may keep pointers to it. The memory comes from
// a reservation, which the other ranks of the node can map. If there is no reservation or it is full, the
// memory comes from private mappings.
type arena struct {
	// reserve is a sparse shared mapping, or nil if there is none. It is the first of the regions. A page takes memory
	// once it is touched.
	reserve []byte

	mu      sync.Mutex
	regions atomic.Pointer[[]*region.Region] // the slice is replaced, never changed, so that readers need no lock
	own     [][]byte                         // pieces of allocOwn
}

const blockSize = 1 << 20 // size of the mappings that small pieces share; a larger piece has its own mapping

// reserveIn makes b the reservation. It must be called before the first alloc.
func (a *arena) reserveIn(b []byte) {
	a.reserve = b
	a.regions.Store(&[]*region.Region{region.New(b)})
}

func (a *arena) all() []*region.Region {
	if all := a.regions.Load(); all != nil {
		return *all
	}
	return nil
}

// alloc returns n zeroed bytes, aligned to 64 bytes.
func (a *arena) alloc(n int) ([]byte, error) {
	if n < 0 || n > 1<<46 {
		return nil, fmt.Errorf("allocate %d bytes: expected 0 or more", n)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.all() {
		if b := r.Take(n); b != nil {
			return b, nil
		}
	}
	size := region.Room(n)
	if size <= blockSize/4 {
		size = blockSize
	}
	b, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, fmt.Errorf("allocate %d bytes: %w", n, err)
	}
	advise(b)
	r := region.New(b)
	all := append(slices.Clone(a.all()), r)
	a.regions.Store(&all)
	return r.Take(n), nil
}

// allocOwn is like alloc, but for memory of the transport itself, which a.keep does not free.
func (a *arena) allocOwn(n int) ([]byte, error) {
	b, err := a.alloc(n)
	a.own = append(a.own, b)
	return b, err
}

// advise requests huge pages for b if b is long. The system may ignore the request.
func advise(b []byte) {
	if len(b) >= 1<<21 {
		unix.Madvise(b, unix.MADV_HUGEPAGE)
	}
}

// holds reports whether b is memory of the arena.
func (a *arena) holds(b []byte) bool {
	i, _ := region.Find(a.all(), b)
	return i >= 0
}

// keep frees the memory of the arena, except for the given pieces and the memory of allocOwn.
func (a *arena) keep(pieces [][]byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := a.all()
	of, err := region.Sort(all, slices.Concat(a.own, pieces))
	if err != nil {
		return err
	}
	var left []*region.Region
	for i, r := range all {
		how := C.int(C.MADV_DONTNEED)
		if i == 0 && a.reserve != nil {
			how = C.MADV_REMOVE // otherwise the pages would stay in the file
		} else if of[i] == nil {
			giveBack(r.Mem(), how)
			unix.Munmap(r.Mem())
			continue
		}
		left = append(left, r)
		if err := r.Keep(of[i], func(pages []byte) error { return giveBack(pages, how) }); err != nil {
			return err
		}
	}
	a.regions.Store(&left)
	return nil
}

// giveBack returns pages to the system. It calls the C library's madvise, because MPI intercepts this function to
// unregister the pages from a network card.
func giveBack(pages []byte, how C.int) error {
	_, err := C.madvise(pointer(pages), C.size_t(len(pages)), how)
	return err
}

// free frees all memory of the arena.
func (a *arena) free() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.all() {
		unix.Munmap(r.Mem())
	}
	a.reserve = nil
	a.regions.Store(nil)
}
