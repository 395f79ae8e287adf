// Package region allocates pieces of a memory mapping.
package region

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"unsafe"
)

// Align is the alignment of pieces, in bytes.
const Align = 64

// A Region allocates zeroed pieces of a memory mapping. It belongs to one goroutine at a time, but any goroutine may
// call Offset.
type Region struct {
	mem  []byte
	free []span // in ascending order, with memory in use between every two spans
	used int    // memory from this offset on was never used, so it is zero and takes no pages
}

// A span is the range [lo, hi) of a region, with bounds at multiples of Align.
type span struct{ lo, hi int }

// New returns a region of mem, which must be zero. The address and the length of mem must be multiples of Align.
func New(mem []byte) *Region { return &Region{mem: mem, free: []span{{0, len(mem)}}} }

// Mem returns the whole mapping.
func (r *Region) Mem() []byte { return r.mem }

// Room returns the number of bytes that a piece of n bytes occupies in a region: n rounded up to a multiple of Align.
func Room(n int) int { return (n + Align - 1) &^ (Align - 1) }

// Take returns n zeroed bytes of the first free span that has room, or nil if no span has room.
func (r *Region) Take(n int) []byte {
	room := Room(n)
	for i := range r.free {
		f := &r.free[i]
		if f.hi-f.lo < room {
			continue
		}
		lo := f.lo
		if f.lo += room; f.lo == f.hi {
			r.free = slices.Delete(r.free, i, i+1)
		}
		r.used = max(r.used, lo+room)
		return r.mem[lo : lo+n : lo+n]
	}
	return nil
}

// Offset returns the offset of b in the region. The bool is false if b is not in the region.
func (r *Region) Offset(b []byte) (int, bool) {
	lo, p := uintptr(unsafe.Pointer(unsafe.SliceData(r.mem))), uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	return int(p - lo), p >= lo && p-lo < uintptr(len(r.mem)) && uintptr(len(b)) <= uintptr(len(r.mem))-(p-lo)
}

// Find returns the index of the region that contains b, and the offset of b in that region. The index is -1 if no
// region contains b. Elements of regions may be nil.
func Find(regions []*Region, b []byte) (index, offset int) {
	for i, r := range regions {
		if r == nil {
			continue
		}
		if at, ok := r.Offset(b); ok {
			return i, at
		}
	}
	return -1, 0
}

// Sort groups the pieces by the region that contains them: element i of the result has the pieces of regions[i]. It
// ignores empty pieces, and returns an error if a piece is in no region.
func Sort(regions []*Region, pieces [][]byte) ([][][]byte, error) {
	sorted := make([][][]byte, len(regions))
	for _, b := range pieces {
		if len(b) == 0 {
			continue
		}
		i, _ := Find(regions, b)
		if i < 0 {
			return nil, fmt.Errorf("keep %d bytes: they are not of this rank's Alloc", len(b))
		}
		sorted[i] = append(sorted[i], b)
	}
	return sorted, nil
}

// Keep frees the region except for the given pieces. If a piece is in free memory, Keep returns an error and changes
// nothing. Keep calls giveBack to return whole pages to the system, after which they read as zeros. If giveBack fails,
// Keep writes the zeros itself.
func (r *Region) Keep(pieces [][]byte, giveBack func(pages []byte) error) error {
	var kept []span
	for _, b := range pieces {
		at, _ := r.Offset(b)
		s := span{at &^ (Align - 1), Room(at + len(b))}
		for _, f := range r.free {
			if s.lo < f.hi && f.lo < s.hi {
				return fmt.Errorf("keep %d bytes at %d: they are free, since their world has ended", len(b), at)
			}
		}
		kept = append(kept, s)
	}
	slices.SortFunc(kept, func(a, b span) int { return cmp.Compare(a.lo, b.lo) })
	used, free := 0, []span(nil)
	for _, s := range kept {
		if s.lo > used {
			free = append(free, span{used, s.lo})
		}
		used = max(used, s.hi)
	}
	if used < len(r.mem) {
		free = append(free, span{used, len(r.mem)})
	}
	for _, f := range free {
		if hi := min(f.hi, r.used); f.lo < hi {
			clean(r.mem[f.lo:hi], giveBack)
		}
	}
	r.free, r.used = free, used
	return nil
}

// clean zeroes b, and returns the pages that are completely in b to the system.
func clean(b []byte, giveBack func(pages []byte) error) {
	page := uintptr(os.Getpagesize())
	lo := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	first, last := (lo+page-1)&^(page-1), (lo+uintptr(len(b)))&^(page-1)
	if first >= last || giveBack(b[first-lo:last-lo]) != nil {
		clear(b)
		return
	}
	clear(b[:first-lo])
	clear(b[last-lo:])
}
