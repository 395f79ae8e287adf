package local

import (
	"fmt"
	"sync"
	"unsafe"
)

const (
	align = 64
	chunk = 1 << 20 // size of the mappings that small pieces share; a larger piece has its own
)

// A memory allocates zeroed pieces of memory mappings. The mappings live until free. Each rank has
// a memory of its own.
type memory struct {
	mu       sync.RWMutex
	mappings [][]byte
	rest     []byte // unused part of the last shared mapping
}

func (m *memory) alloc(n int) ([]byte, error) {
	if n < 0 {
		return nil, fmt.Errorf("alloc of %d bytes", n)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	size := (n + align - 1) &^ (align - 1)
	if size > chunk/4 {
		b, err := m.mapping(size)
		if err != nil {
			return nil, err
		}
		return b[:n:n], nil
	}
	if size > len(m.rest) {
		b, err := m.mapping(chunk)
		if err != nil {
			return nil, err
		}
		m.rest = b
	}
	b := m.rest[:n:n]
	m.rest = m.rest[size:]
	return b, nil
}

func (m *memory) mapping(size int) ([]byte, error) {
	b, err := mmap(size)
	if err != nil {
		return nil, fmt.Errorf("alloc of %d bytes: %w", size, err)
	}
	m.mappings = append(m.mappings, b)
	return b, nil
}

// offsetBits is the number of low bits of a location that hold the offset in a mapping. The high
// bits hold the mapping's number.
const offsetBits = 44

// locate returns the location of b, and whether b lies in one of the mappings.
func (m *memory) locate(b []byte) (at int64, ok bool) {
	p := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	m.mu.RLock()
	defer m.mu.RUnlock()
	for i, all := range m.mappings {
		lo := uintptr(unsafe.Pointer(unsafe.SliceData(all)))
		if p >= lo && p-lo < uintptr(len(all)) && uintptr(len(b)) <= uintptr(len(all))-(p-lo) {
			return int64(i)<<offsetBits | int64(p-lo), true
		}
	}
	return 0, false
}

// view returns n bytes at a location.
func (m *memory) view(at int64, n int) ([]byte, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	i, off := int(at>>offsetBits), int(at&(1<<offsetBits-1))
	if at < 0 || i >= len(m.mappings) || n < 0 || off > len(m.mappings[i]) || n > len(m.mappings[i])-off {
		return nil, fmt.Errorf("no %d bytes at %d", n, at)
	}
	return m.mappings[i][off : off+n : off+n], nil
}

func (m *memory) free() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, b := range m.mappings {
		if err := munmap(b); err != nil {
			return fmt.Errorf("free %d bytes: %w", len(b), err)
		}
	}
	m.mappings, m.rest = nil, nil
	return nil
}
