package local

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/rlinf/rlinf/spmd/internal/region"
)

const chunk = 1 << 20 // size of the mappings that small pieces share; a larger piece has its own mapping

// A memory allocates zeroed pieces of memory mappings. Each rank has a memory of its own.
type memory struct {
	mu      sync.RWMutex
	regions []*region.Region // one per mapping, indexed by its number; nil if the number is free
}

func (m *memory) alloc(n int) ([]byte, error) {
	if n < 0 {
		return nil, fmt.Errorf("alloc of %d bytes", n)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range m.regions {
		if r == nil {
			continue
		}
		if b := r.Take(n); b != nil {
			return b, nil
		}
	}
	size := region.Room(n)
	if size <= chunk/4 {
		size = chunk
	}
	b, err := mmap(size)
	if err != nil {
		return nil, fmt.Errorf("alloc of %d bytes: %w", n, err)
	}
	r := region.New(b)
	if i := slices.Index(m.regions, nil); i >= 0 {
		m.regions[i] = r
	} else {
		m.regions = append(m.regions, r)
	}
	return r.Take(n), nil
}

// offsetBits is the number of low bits of a location that hold the offset in a mapping. The high
// bits hold the mapping's number.
const offsetBits = 44

// locate returns the location of b. The bool is false if b is in none of the mappings.
func (m *memory) locate(b []byte) (location int64, ok bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	i, off := region.Find(m.regions, b)
	return int64(i)<<offsetBits | int64(off), i >= 0
}

// view returns n bytes at a location. It returns an error unless all of them are in the mapping of that location.
func (m *memory) view(location int64, n int) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	i, off := int(location>>offsetBits), int(location&(1<<offsetBits-1))
	if location < 0 || i >= len(m.regions) || m.regions[i] == nil {
		return nil, fmt.Errorf("no %d bytes at %d", n, location)
	}
	mem := m.regions[i].Mem()
	if n < 0 || off > len(mem) || n > len(mem)-off {
		return nil, fmt.Errorf("no %d bytes at %d", n, location)
	}
	return mem[off : off+n : off+n], nil
}

// keep frees all memory except for the given pieces.
func (m *memory) keep(pieces [][]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	of, err := region.Sort(m.regions, pieces)
	if err != nil {
		return err
	}
	var errs []error
	for i, r := range m.regions {
		switch {
		case r == nil:
		case of[i] != nil:
			errs = append(errs, r.Keep(of[i], giveBack))
		default:
			errs = append(errs, munmap(r.Mem()))
			m.regions[i] = nil
		}
	}
	return errors.Join(errs...)
}
