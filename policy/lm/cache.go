package lm

import (
	"fmt"

	"github.com/rlinf/rlinf/policy/nn"
)

// PageLen is the number of tokens in a page of a Cache.
const PageLen = 16

// A Cache holds the keys and values of sequences, in pages of PageLen tokens. Sequences can share pages: see
// CachedText.Fork. A Cache belongs to one goroutine.
//
// A page has, for every layer and every key head, the keys as [head_dim, PageLen] and then the
// values as [PageLen, head_dim].
type Cache struct {
	m     *Model
	pages int
	mem   []float32
	free  []int32
	users []int32 // [pages]: number of sequences that use the page
	heads int     // elements of one head in a page: keys and values
	page  int     // elements of a page in one layer
}

// NewCache returns a cache with the given number of pages.
func (m *Model) NewCache(pages int) *Cache {
	c := &Cache{m: m, heads: 2 * m.local.HeadDim * PageLen}
	c.page = c.heads * m.local.KVHeads
	c.extend(pages)
	return c
}

// PageBytes returns the size of a cache page in bytes.
func (m *Model) PageBytes() int {
	c := &m.local
	return 4 * 2 * c.HeadDim * PageLen * c.KVHeads * len(m.layers)
}

// extend enlarges an empty cache to at least the given number of pages.
func (c *Cache) extend(pages int) {
	if pages <= c.pages {
		return
	}
	c.pages = pages
	c.mem = nn.Vector[float32](pages * c.page * len(c.m.layers))
	c.users = make([]int32, pages)
	c.free = c.free[:0]
	for p := pages - 1; p >= 0; p-- {
		c.free = append(c.free, int32(p))
	}
}

// Free returns the number of unused pages.
func (c *Cache) Free() int { return len(c.free) }

// head returns the keys [head_dim, PageLen] of a head in a page, and then the values [PageLen, head_dim].
func (c *Cache) head(layer int, page int32, head int) []float32 {
	return c.mem[(layer*c.pages+int(page))*c.page+head*c.heads:][:c.heads]
}

// A CachedText is the part of a text whose keys and values are in a Cache. Make it with NewText.
type CachedText struct {
	cache *Cache
	pages []int32
	len   int
}

// NewText returns an empty sequence without pages. The sequence grows up to the given length without allocation.
func (c *Cache) NewText(length int) *CachedText {
	return &CachedText{cache: c, pages: make([]int32, 0, (length+PageLen-1)/PageLen)}
}

// Len returns the number of cached tokens.
func (s *CachedText) Len() int { return s.len }

// Truncate drops all but the first n tokens, and frees pages that are no longer needed.
func (s *CachedText) Truncate(n int) {
	if n < 0 || n > s.len {
		panic(fmt.Sprintf("lm: a sequence of %d tokens truncated to %d", s.len, n))
	}
	keep := (n + PageLen - 1) / PageLen
	for i := len(s.pages) - 1; i >= keep; i-- {
		s.cache.giveBack(s.pages[i])
	}
	s.pages, s.len = s.pages[:keep], n
}

// Fork returns a new sequence with the first n tokens of s. The new sequence grows up to the given length without
// allocation. It shares full pages with s. A partial page is copied, so the cache must have a free page for the copy.
// Neither sequence changes the other.
func (s *CachedText) Fork(n, length int) *CachedText {
	if n < 0 || n > s.len {
		panic(fmt.Sprintf("lm: a fork of %d tokens of a sequence of %d", n, s.len))
	}
	f := s.cache.NewText(max(n, length))
	f.pages, f.len = append(f.pages, s.pages[:(n+PageLen-1)/PageLen]...), n
	for _, p := range f.pages {
		s.cache.users[p]++
	}
	f.ownLast()
	return f
}

// shares reports whether the next token goes into a page that another sequence uses, too.
func (s *CachedText) shares() bool {
	return s.len%PageLen != 0 && s.cache.users[s.pages[len(s.pages)-1]] > 1
}

// ownLast replaces a shared last page with a copy, if the next token goes into this page.
func (s *CachedText) ownLast() {
	if !s.shares() {
		return
	}
	c, last := s.cache, len(s.pages)-1
	from, to := int(s.pages[last]), int(c.take())
	for layer := range c.m.layers {
		at := layer * c.pages
		copy(c.mem[(at+to)*c.page:][:c.page], c.mem[(at+from)*c.page:][:c.page])
	}
	c.giveBack(int32(from))
	s.pages[last] = int32(to)
}

// take removes a page from the free pages and returns it.
func (c *Cache) take() int32 {
	last := len(c.free) - 1
	p := c.free[last]
	c.free, c.users[p] = c.free[:last], 1
	return p
}

// giveBack decrements the number of users of page p. It frees the page if no sequence uses it any more.
func (c *Cache) giveBack(p int32) {
	if c.users[p]--; c.users[p] == 0 {
		c.free = append(c.free, p)
	}
}

// Missing returns the number of additional pages that the sequence needs for n more tokens, including the copy of a
// shared page.
func (s *CachedText) Missing(n int) int {
	missing := (s.len+n+PageLen-1)/PageLen - len(s.pages)
	if n > 0 && s.shares() {
		missing++
	}
	return missing
}

// grow takes pages for n more tokens. The caller has checked that enough pages are free.
func (s *CachedText) grow(n int) {
	if n > 0 {
		s.ownLast()
	}
	for range s.Missing(n) {
		s.pages = append(s.pages, s.cache.take())
	}
	s.len += n
}

// Pages returns a copy of the last pages for Append: the page of the token with the given index, and all later pages.
func (s *CachedText) Pages(index int) []float32 {
	c := s.cache
	to := make([]float32, 0, (len(s.pages)-index/PageLen)*c.page*len(c.m.layers))
	for layer := range c.m.layers {
		for _, p := range s.pages[index/PageLen:] {
			to = append(to, c.mem[(layer*c.pages+int(p))*c.page:][:c.page]...)
		}
	}
	return to
}

// Append appends n tokens with their keys and values. pages is the result of Pages(s.Len()) of another sequence with
// the same tokens. The caller has checked that enough pages are free.
func (s *CachedText) Append(n int, pages []float32) {
	from := s.len
	s.grow(n)
	c := s.cache
	for layer := range c.m.layers {
		for _, p := range s.pages[from/PageLen:] {
			copy(c.mem[(layer*c.pages+int(p))*c.page:][:c.page], pages)
			pages = pages[c.page:]
		}
	}
}
