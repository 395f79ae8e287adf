package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// An AddedToken is a text that is always encoded as one token.
type AddedToken struct {
	ID      int32
	Content string
	// Special marks a special token. DecodeText leaves out special tokens.
	Special bool
	// If SingleWord is true, the token does not match next to a letter, mark, digit or underscore.
	SingleWord bool
	// With LStrip, the token includes the white space before its text. With RStrip, it includes the white space after
	// its text. Decoding does not restore this white space.
	LStrip, RStrip bool
	// If Normalized is true, Encode normalizes Content and searches for it in the normalized text. Otherwise Encode
	// searches for Content in the original text.
	Normalized bool
}

// A matcher finds the first added token in a text. If several tokens begin at one byte, it finds the longest of them.
type matcher struct {
	start [256]bool // bytes that begin a token
	nodes []matchNode
}

// A matchNode is a node in the trie of the tokens' bytes; node 0 is the root.
type matchNode struct {
	next  map[byte]int32
	token *AddedToken // nil if no token ends here
}

// add adds a token to the trie under the given text. A token with the same text is replaced.
func (m *matcher) add(text string, token *AddedToken) {
	if text == "" {
		return
	}
	if len(m.nodes) == 0 {
		m.nodes = make([]matchNode, 1)
	}
	m.start[text[0]] = true
	at := int32(0)
	for i := range len(text) {
		to, ok := m.nodes[at].next[text[i]]
		if !ok {
			to = int32(len(m.nodes))
			if m.nodes[at].next == nil {
				m.nodes[at].next = map[byte]int32{}
			}
			m.nodes[at].next[text[i]] = to
			m.nodes = append(m.nodes, matchNode{})
		}
		at = to
	}
	m.nodes[at].token = token
}

func (m *matcher) empty() bool { return len(m.nodes) == 0 }

// find returns the first token in text[offset:], and its range [start, end) in text. The range includes the white space
// of LStrip and RStrip, but start >= offset. If there is no token, token is nil.
func (m *matcher) find(text string, offset int) (token *AddedToken, start, end int) {
	for i := offset; i < len(text); i++ {
		if !m.start[text[i]] {
			continue
		}
		token, end := m.longest(text, i)
		if token == nil {
			continue
		}
		if token.SingleWord && (endsInWord(text[:i]) || startsWithWord(text[end:])) {
			i = end - 1
			continue
		}
		start := i
		if token.LStrip {
			start = max(offset, len(strings.TrimRightFunc(text[:i], unicode.IsSpace)))
		}
		if token.RStrip {
			end += len(text[end:]) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		return token, start, end
	}
	return nil, 0, 0
}

// longest returns the longest token that begins at byte i, and its end. If there is no token, token is nil.
func (m *matcher) longest(text string, i int) (token *AddedToken, end int) {
	for at := int32(0); ; {
		if t := m.nodes[at].token; t != nil {
			token, end = t, i
		}
		if i == len(text) {
			return token, end
		}
		to, ok := m.nodes[at].next[text[i]]
		if !ok {
			return token, end
		}
		at = to
		i++
	}
}

func startsWithWord(s string) bool {
	r, size := utf8.DecodeRuneInString(s)
	return size > 0 && isWord(r)
}

func endsInWord(s string) bool {
	r, size := utf8.DecodeLastRuneInString(s)
	return size > 0 && isWord(r)
}

// isWord reports whether r is in \w of Unicode's recommendations for regular expressions (UTS 18, annex C).
func isWord(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc,
		unicode.Other_Alphabetic, unicode.Join_Control)
}
