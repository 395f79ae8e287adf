package args

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Printable returns text of a file without characters that a terminal could obey, or that have no width of their own.
// Each becomes a question mark; accents are left out.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r):
			return -1
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, text)
}
