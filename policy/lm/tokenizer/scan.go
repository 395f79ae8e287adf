package tokenizer

import "unicode/utf8"

// A rule names a published regular expression that splits text into pieces. The expressions have a look-ahead,
// \s+(?!\S), which Go's regexp does not support. So the alternatives are written in Go here. Every character belongs to
// a piece.
type rule uint8

const (
	// In these lists of alternatives, ? marks an optional character.

	// gpt2: lower-case contractions; space? and letters; space? and numbers; space? and others; white space.
	gpt2 rule = iota + 1
	// llama3: contractions; any? and letters; up to 3 numbers; space? and others and line ends; white space with line
	// ends; white space.
	llama3
	// qwen2: like llama3, with one number per piece.
	qwen2
)

const (
	blanks = `|\s+(?!\S)|\s+`
	words  = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|`
	others = `| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+` + blanks

	gpt2Pattern   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+` + blanks
	llama3Pattern = words + `\p{N}{1,3}` + others
	qwen2Pattern  = words + `\p{N}` + others
)

// patterns maps known expressions to their rules. The last two are tiktoken's forms of the patterns of GPT-2 and Llama
// 3, with the same meaning.
var patterns = map[string]rule{
	gpt2Pattern:   gpt2,
	llama3Pattern: llama3,
	qwen2Pattern:  qwen2,

	`'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+` + blanks: gpt2,

	`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]` + blanks: llama3,
}

// next returns the length in bytes of the first piece of s. s must not be empty.
func (c *classes) next(s string, rule rule) int {
	if s[0] == '\'' {
		if n := contraction(s, rule != gpt2); n > 0 {
			return n
		}
	}
	first, size := c.first(s)
	if rule == gpt2 {
		return c.nextGPT2(s, first, size)
	}
	switch first {
	case letter:
		return c.run(s, size, letter)
	case number:
		n := size
		for i := 1; i < 3 && rule == llama3 && n < len(s); i++ {
			k, size := c.first(s[n:])
			if k != number {
				break
			}
			n += size
		}
		return n
	case newline:
		return c.blanks(s, true)
	}
	// One character that is not a letter, number or line end joins the letters after it.
	if size < len(s) {
		switch second, width := c.first(s[size:]); {
		case second == letter:
			return c.run(s, size+width, letter)
		case second == other && s[0] == ' ':
			return c.lineEnds(s, c.run(s, size+width, other))
		}
	}
	if first == space {
		return c.blanks(s, true)
	}
	return c.lineEnds(s, c.run(s, size, other))
}

func (c *classes) nextGPT2(s string, first class, size int) int {
	if s[0] == ' ' && len(s) > 1 {
		if second, width := c.first(s[1:]); second < space {
			return c.run(s, 1+width, second)
		}
	}
	if first < space {
		return c.run(s, size, first)
	}
	return c.blanks(s, false)
}

// first returns the class and the length of the first character of s. s must not be empty. A byte that is not UTF-8 is
// a character of class "other".
func (c *classes) first(s string) (class, int) {
	if b := s[0]; b < utf8.RuneSelf {
		return c[b], 1
	}
	r, size := utf8.DecodeRuneInString(s)
	return c.of(r), size
}

// run returns the end of the run of characters of class k that begins at index n of s.
func (c *classes) run(s string, n int, k class) int {
	for n < len(s) {
		if b := s[n]; b < utf8.RuneSelf {
			if c[b] != k {
				return n
			}
			n++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[n:])
		if c.of(r) != k {
			return n
		}
		n += size
	}
	return n
}

func (c *classes) lineEnds(s string, n int) int {
	for n < len(s) && c[s[n]] == newline {
		n++
	}
	return n
}

// blanks returns the length of the first piece of s. s must begin with a run of white space. If lines is true and the
// run has line ends, the piece ends after the last line end. Otherwise the piece is the whole run if the run has one
// character or ends the text. In all other cases, the piece is the run without its last character.
func (c *classes) blanks(s string, lines bool) int {
	n, last, line := 0, 0, 0 // ends of the run, of the run without its last character, and of the last line end
	for n < len(s) {
		k, size := c.first(s[n:])
		if k < space {
			break
		}
		last = n
		n += size
		if k == newline {
			line = n
		}
	}
	switch {
	case lines && line > 0:
		return line
	case n == len(s) || last == 0:
		return n
	}
	return last
}

// contraction returns the length of 's, 't, 're, 've, 'm, 'll or 'd at the start of s, or 0 if s begins with other
// text. If fold is true, upper-case letters and the long s (U+017F) match, too.
func contraction(s string, fold bool) int {
	if len(s) < 2 {
		return 0
	}
	lower := func(b byte) byte {
		if fold && 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		return b
	}
	switch lower(s[1]) {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(s) < 3 {
		return 0
	}
	switch [2]byte{lower(s[1]), lower(s[2])} {
	case [2]byte{'r', 'e'}, [2]byte{'v', 'e'}, [2]byte{'l', 'l'}:
		return 3
	}
	if fold && s[1:3] == "ſ" {
		return 3
	}
	return 0
}
