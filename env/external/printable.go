package external

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// printable makes a simulator's text safe for logs and terminals. Bytes that are not UTF-8 become
// escapes such as \x1b and \u200e. So do control characters, except line feeds and tabs.
func printable(text string) string {
	harmless := func(r rune) bool { return r == '\n' || r == '\t' || unicode.IsGraphic(r) && r != utf8.RuneError }
	if !strings.ContainsFunc(text, func(r rune) bool { return !harmless(r) }) {
		return text
	}
	var out strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case harmless(r) || r == utf8.RuneError && size > 1:
			out.WriteString(text[:size])
		case r < utf8.RuneSelf || size == 1:
			fmt.Fprintf(&out, `\x%02x`, text[0])
		case r <= 0xffff:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			fmt.Fprintf(&out, `\U%08x`, r)
		}
		text = text[size:]
	}
	return out.String()
}
