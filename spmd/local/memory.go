package local

import (
	"fmt"
	"sync"
)

const (
	align = 64
	chunk = 1 << 20 // small pieces share mappings of this size; a larger one has its own
)

// A memory hands out zeroed pieces of mappings that live until free.
type memory struct {
	mu       sync.Mutex
	mappings [][]byte
	rest     []byte // what is left of the last shared mapping
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
