package tokenizer

import (
	"math/bits"
	"strings"
	"unicode/utf8"
)

// bpe is a model of byte pair encoding. It turns a piece of text into token ids by merging neighbouring tokens. The
// model is read-only.
type bpe struct {
	// bytes maps each byte to its token, or to -1 if the byte has no token. bytes is nil unless the model is
	// byte-level.
	bytes *[256]int32
	// chars maps characters to their tokens. chars is nil if the model is byte-level.
	chars map[string]int32
	// pieces maps texts to tokens. A piece that is a token is never split. pieces is nil unless the model has
	// ignore_merges.
	pieces map[string]int32
	// fallback has the tokens <0x00> to <0xFF>, for the bytes of characters without a token. Missing tokens are -1.
	// fallback is nil without byte_fallback.
	fallback *[256]int32
	unknown  int32 // token of unknown characters; -1 if they have no token
	fuse     bool  // whether a run of unknown characters is one unknown token
	merges   mergeTable
	// If atWords is true, no merge joins ▁ to a character before it. So tokens do not change if text is cut before ▁.
	atWords bool
}

// A merge joins two tokens into one. Merges of a lower rank come first.
type merge struct {
	left, right, id int32
}

// A mergeTable maps pairs of tokens to the rank and the result of their merge. It is a hash table with open addressing.
// Most pairs have no merge. The fields lowResults and filter exclude most of these pairs without a search.
type mergeTable struct {
	slots []mergeSlot // length is a power of two; at most half of the slots are used
	shift uint
	ranks int
	// lowResults has the results for all pairs of tokens below lowIDs. In most vocabularies these tokens are bytes.
	lowResults []uint64
	// filter is a Bloom filter with one hash: a bit is 0 if no pair with this hash has a merge.
	filter      []uint64
	filterShift uint
}

const lowIDs = 256

type mergeSlot struct {
	pair uint64
	// result is rank<<32 | id; noMerge if the slot is empty.
	result uint64
}

const noMerge = ^uint64(0)

func newMergeTable(merges []merge) mergeTable {
	n := max(bits.Len(uint(2*len(merges))), 1)
	const perMerge = 3 // log2 of the number of bits per merge in the slice filter
	t := mergeTable{
		slots: make([]mergeSlot, 1<<n), shift: uint(64 - n), ranks: len(merges),
		lowResults: make([]uint64, lowIDs*lowIDs),
		filter:     make([]uint64, max(1, 1<<(n+perMerge)/64)), filterShift: uint(64 - n - perMerge),
	}
	for i := range t.slots {
		t.slots[i].result = noMerge
	}
	for i := range t.lowResults {
		t.lowResults[i] = noMerge
	}
	for rank, m := range merges {
		pair := pairOf(m.left, m.right)
		result := uint64(rank)<<32 | uint64(m.id)
		*t.slot(pair) = mergeSlot{pair, result}
		if m.left < lowIDs && m.right < lowIDs {
			t.lowResults[int(m.left)*lowIDs+int(m.right)] = result
		}
		bit := hashOf(pair) >> t.filterShift
		t.filter[bit/64] |= 1 << (bit % 64)
	}
	return t
}

func hashOf(pair uint64) uint64 { return pair * 0x9e3779b97f4a7c15 }

func pairOf(left, right int32) uint64 { return uint64(left)<<32 | uint64(right) }

// slot returns the slot of a pair. If the table lacks the pair, slot returns the empty slot for the pair.
func (t *mergeTable) slot(pair uint64) *mergeSlot {
	mask := len(t.slots) - 1
	for i := int(hashOf(pair) >> t.shift); ; i++ {
		if s := &t.slots[i&mask]; s.result == noMerge || s.pair == pair {
			return s
		}
	}
}

// result returns rank<<32 | id of the merge of two tokens, or noMerge.
func (t *mergeTable) result(left, right int32) uint64 {
	if left < lowIDs && right < lowIDs {
		return t.lowResults[int(left)*lowIDs+int(right)]
	}
	pair := pairOf(left, right)
	if bit := hashOf(pair) >> t.filterShift; t.filter[bit/64]>>(bit%64)&1 == 0 {
		return noMerge
	}
	return t.slot(pair).result
}

// symbols appends to dst the tokens of a piece before any merge: the tokens of its bytes or characters.
func (m *bpe) symbols(dst []int32, piece string) []int32 {
	unknown := false // an unknown token is pending; if fuse is true, further unknown characters join this token
	flush := func() {
		if unknown {
			dst = append(dst, m.unknown)
		}
		unknown = false
	}
	miss := func() {
		if m.unknown < 0 {
			return
		}
		if !m.fuse {
			flush()
		}
		unknown = true
	}
	if m.bytes != nil {
		for i := range len(piece) {
			if id := m.bytes[piece[i]]; id >= 0 {
				flush()
				dst = append(dst, id)
			} else {
				miss()
			}
		}
		flush()
		return dst
	}
	for i, size := 0, 0; i < len(piece); i += size {
		_, size = utf8.DecodeRuneInString(piece[i:])
		char := piece[i : i+size]
		if id, ok := m.chars[char]; ok {
			flush()
			dst = append(dst, id)
		} else if n := len(dst); m.fallback != nil {
			for j := range len(char) {
				if id := m.fallback[char[j]]; id >= 0 {
					dst = append(dst, id)
				}
			}
			if len(dst) < n+size {
				dst = dst[:n]
				miss()
			}
		} else {
			miss()
		}
	}
	flush()
	return dst
}

// wordLength returns the length in bytes of the first word of text. Words can be encoded separately. The word ends
// before the first ▁ that follows another character.
func (m *bpe) wordLength(text string) int {
	if !m.atWords {
		return len(text)
	}
	i := 0
	for strings.HasPrefix(text[i:], metaspace) {
		i += len(metaspace)
	}
	if n := strings.Index(text[i:], metaspace); n >= 0 {
		return i + n
	}
	return len(text)
}

// metaspace stands for a space in vocabularies of SentencePiece.
const metaspace = "▁"
