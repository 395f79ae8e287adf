package tokenizer

import (
	"hash/maphash"
)

// An Encoding turns text into ids. It has a cache, so each goroutine needs its own Encoding.
type Encoding struct {
	t      *Tokenizer
	merger merger
	cache  cache
}

// NewEncoder returns an encoder. Its cache grows up to about 3 MiB. The encoder also keeps memory in proportion to the
// longest word so far.
func (t *Tokenizer) NewEncoder() *Encoding {
	return &Encoding{t: t, cache: cache{seed: maphash.MakeSeed()}}
}

// Encode returns the ids of a text, with the ids that the post-processor adds around a sequence.
// For many texts, use an Encoding.
func (t *Tokenizer) Encode(text string) []int32 { return t.NewEncoder().EncodeSequence(nil, text) }

// EncodeSequence appends to dst the ids of a text, with the ids that the post-processor adds around a sequence. Often
// this is only one token, at the beginning.
func (e *Encoding) EncodeSequence(dst []int32, text string) []int32 {
	return append(e.EncodePrompt(dst, text), e.t.suffix...)
}

// EncodePrompt is like EncodeSequence, but leaves out the ids after a sequence, because an answer will follow the text.
func (e *Encoding) EncodePrompt(dst []int32, text string) []int32 {
	return e.Encode(append(dst, e.t.prefix...), text)
}

// Encode appends the ids of a text to dst. It finds added tokens, including special ones, anywhere
// in the text. Bytes that are not UTF-8 are encoded as bytes if the vocabulary has tokens for them.
func (e *Encoding) Encode(dst []int32, text string) []int32 { return e.encode(dst, text, atStart) }

// Continue is like Encode, but for a text that follows another text. It adds no blank before the text.
func (e *Encoding) Continue(dst []int32, text string) []int32 { return e.encode(dst, text, continuing) }

func (e *Encoding) encode(dst []int32, text string, at position) []int32 {
	return encodeParts(dst, &e.t.raw, text, at, func(dst []int32, part string, at position) []int32 {
		part = normalize(e.t.normalizer, part, at)
		return encodeParts(dst, &e.t.normalized, part, at, func(dst []int32, part string, at position) []int32 {
			return e.cut(dst, 0, part, at)
		})
	})
}

// A position says what comes before a part of a text. It decides whether a tokenizer puts a blank before the part.
type position uint8

const (
	inside     position = iota // a part of the same text
	atStart                    // nothing
	continuing                 // a text that was encoded separately
)

// encodeParts appends the ids of the added tokens that m finds in text. It calls encode for each part between added
// tokens. The argument at is the position of the text, and of a part at its beginning.
func encodeParts(dst []int32, m *matcher, text string, at position,
	encode func(dst []int32, part string, at position) []int32) []int32 {
	if m.empty() {
		return encode(dst, text, at)
	}
	offset := 0
	for {
		token, start, end := m.find(text, offset)
		if token == nil {
			return encode(dst, text[offset:], at)
		}
		dst = append(encode(dst, text[offset:start], at), token.ID)
		offset, at = end, inside
	}
}

// piece encodes a piece from the pre-tokenizer.
func (e *Encoding) piece(dst []int32, piece string) []int32 {
	for piece != "" {
		n := e.t.model.wordLength(piece)
		dst = e.word(dst, piece[:n])
		piece = piece[n:]
	}
	return dst
}

// word appends the ids of a word: a text that is merged separately.
func (e *Encoding) word(dst []int32, word string) []int32 {
	m := &e.t.model
	if len(word) == 1 && m.bytes != nil && m.bytes[word[0]] >= 0 {
		return append(dst, m.bytes[word[0]])
	}
	hash := uint64(0)
	cached := len(word) <= longestCached
	if cached {
		hash = maphash.String(e.cache.seed, word)
		if ids, ok := e.cache.get(hash, word); ok {
			return append(dst, ids...)
		}
	}
	n := len(dst)
	if id, ok := m.pieces[word]; ok {
		dst = append(dst, id)
	} else {
		dst = m.symbols(dst, word)
		dst = dst[:n+len(e.merger.merge(&m.merges, dst[n:]))]
	}
	if cached {
		e.cache.put(hash, word, dst[n:])
	}
	return dst
}

// A cache maps words to ids. A full cache is cleared.
type cache struct {
	seed  maphash.Seed
	slots []cacheSlot // hash table with open addressing, at most half full
	count int
	words []byte // all words, concatenated
	ids   []int32
}

type cacheSlot struct {
	hash      uint64
	word, ids uint32 // offsets into words and ids
	length    uint16 // length of the word in bytes; 0 if the slot is empty
	tokens    uint16
}

const (
	longestCached = 48      // maximum length of a cached word in bytes
	cacheWords    = 1 << 15 // maximum number of words
	firstSlots    = 1 << 10
)

// get returns the ids of a word.
func (c *cache) get(hash uint64, word string) ([]int32, bool) {
	if len(c.slots) == 0 {
		return nil, false
	}
	if s := c.slot(hash, word); s.length > 0 {
		return c.ids[s.ids : s.ids+uint32(s.tokens)], true
	}
	return nil, false
}

// slot returns the slot of a word. If the cache lacks the word, slot returns the empty slot for the word.
func (c *cache) slot(hash uint64, word string) *cacheSlot {
	mask := uint64(len(c.slots) - 1)
	for i := hash; ; i++ {
		s := &c.slots[i&mask]
		if s.length == 0 || s.hash == hash && string(c.words[s.word:s.word+uint32(s.length)]) == word {
			return s
		}
	}
}

// put adds a word that the cache does not have.
func (c *cache) put(hash uint64, word string, ids []int32) {
	switch {
	case c.count == cacheWords:
		clear(c.slots)
		c.count, c.words, c.ids = 0, c.words[:0], c.ids[:0]
	case 2*c.count >= len(c.slots):
		old := c.slots
		c.slots = make([]cacheSlot, max(firstSlots, 2*len(old)))
		mask := uint64(len(c.slots) - 1)
		for _, s := range old {
			if s.length > 0 {
				i := s.hash
				for c.slots[i&mask].length > 0 {
					i++
				}
				c.slots[i&mask] = s
			}
		}
	}
	*c.slot(hash, word) = cacheSlot{hash, uint32(len(c.words)), uint32(len(c.ids)), uint16(len(word)), uint16(len(ids))}
	c.count++
	c.words = append(c.words, word...)
	c.ids = append(c.ids, ids...)
}
