package tokenizer

import "unicode"

// A class is what the split patterns know about a character.
type class uint8

const (
	other   class = iota
	letter        // \p{L}
	number        // \p{N}
	space         // \s without the two below: White_Space
	newline       // CR or LF
)

// classes is the table of the classes of the characters below U+10000. The few above are looked up
// in the tables of package unicode.
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
