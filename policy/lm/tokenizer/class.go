package tokenizer

import "unicode"

// A class is a category of characters in the split patterns.
type class uint8

const (
	other   class = iota
	letter        // \p{L}
	number        // \p{N}
	space         // \s other than CR and LF: White_Space
	newline       // CR or LF
)

// classes holds the class of each character below U+10000. Other characters are looked up in
// package unicode.
type classes [1 << 16]class

func newClasses() *classes {
	c := new(classes)
	c.fill(unicode.L, letter)
	c.fill(unicode.N, number)
	c.fill(unicode.White_Space, space)
	c['\r'], c['\n'] = newline, newline
	return c
}

func (c *classes) fill(table *unicode.RangeTable, k class) {
	for _, r := range table.R16 {
		for i := uint32(r.Lo); i <= uint32(r.Hi); i += uint32(r.Stride) {
			c[i] = k
		}
	}
}

func (c *classes) of(r rune) class {
	switch {
	case r < 1<<16:
		return c[r]
	case unicode.IsLetter(r):
		return letter
	case unicode.IsNumber(r):
		return number
	}
	return other // no White_Space is above U+FFFF
}
