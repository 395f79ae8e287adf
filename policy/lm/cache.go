package lm

import (
	"fmt"

	"github.com/rlinf/rlinf/policy/nn"
)

// PageLen is how many tokens a page of a Cache holds.
const PageLen = 16

// A Cache holds the keys and values of sequences, in pages of PageLen tokens that it hands out. It
// belongs to one goroutine.
//
// A page has, for every layer and every key head, the keys as [head_dim, PageLen] and then the
// values as [PageLen, head_dim].
type Cache struct {
	m     *Model
	pages int
	mem   []float32
	free  []int32
	heads int // elements of a head in a page: keys and values
	page  int // elements of a page in one layer
}

// NewCache returns a cache of so many pages.
func (m *Model) NewCache(pages int) *Cache {
	c := &Cache{m: m, heads: 2 * m.Config.HeadDim * PageLen}
	c.page = c.heads * m.Config.KVHeads
	c.extend(pages)
	return c
}

// PageBytes returns the memory that one page of a cache takes.
func (m *Model) PageBytes() int {
	c := &m.Config
	return 4 * 2 * c.HeadDim * PageLen * c.KVHeads * c.Layers
}

// extend lets an empty cache have at least so many pages.
func (c *Cache) extend(pages int) {
	if pages <= c.pages {
		return
	}
	c.pages = pages
	c.mem = nn.Vector[float32](pages * c.page * c.m.Config.Layers)
	c.free = c.free[:0]
	for p := pages - 1; p >= 0; p-- {
		c.free = append(c.free, int32(p))
	}
}

// Free returns how many pages nobody has.
func (c *Cache) Free() int { return len(c.free) }

// keys returns the keys of a head in a page, [head_dim, PageLen].
func (c *Cache) keys(layer int, page int32, head int) []float32 {
	return c.mem[(layer*c.pages+int(page))*c.page+head*c.heads:][: c.heads/2 : c.heads/2]
}

// values returns the values of a head in a page, [PageLen, head_dim].
func (c *Cache) values(layer int, page int32, head int) []float32 {
	return c.mem[(layer*c.pages+int(page))*c.page+head*c.heads+c.heads/2:][: c.heads/2 : c.heads/2]
}

// A Sequence is the part of a text whose keys and values a Cache holds. The zero Sequence is not
// ready: make it with NewSequence.
type Sequence struct {
	cache *Cache
	pages []int32
	len   int
}

// NewSequence returns an empty sequence, which has no page yet. It grows to the given length
// without allocation.
func (c *Cache) NewSequence(length int) *Sequence {
	return &Sequence{cache: c, pages: make([]int32, 0, (length+PageLen-1)/PageLen)}
}

// Len returns how many tokens the cache holds of the sequence.
func (s *Sequence) Len() int { return s.len }

// Truncate gives back all but the first n tokens, and the pages that hold no other. Truncate(0)
// gives back everything.
func (s *Sequence) Truncate(n int) {
	if n < 0 || n > s.len {
		panic(fmt.Sprintf("lm: a sequence of %d tokens truncated to %d", s.len, n))
	}
	keep := (n + PageLen - 1) / PageLen
	for i := len(s.pages) - 1; i >= keep; i-- {
		s.cache.free = append(s.cache.free, s.pages[i])
	}
	s.pages, s.len = s.pages[:keep], n
}

// Missing returns how many pages the sequence needs to grow by n tokens.
func (s *Sequence) Missing(n int) int { return (s.len+n+PageLen-1)/PageLen - len(s.pages) }

// grow takes pages for n more tokens. The caller has checked that there are enough.
func (s *Sequence) grow(n int) {
	for range s.Missing(n) {
		last := len(s.cache.free) - 1
		s.pages = append(s.pages, s.cache.free[last])
		s.cache.free = s.cache.free[:last]
	}
	s.len += n
}
