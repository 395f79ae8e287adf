// Package printable makes the texts of files, folders and other programs safe for terminals and logs: names, values,
// statuses, reasons. A text cannot move the cursor, forge a line or fill the screen. Letters of all scripts are kept.
package printable

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxRunes is the maximum number of characters of a line that Line and Lines show.
const MaxRunes = 1000

// maxMarks is the maximum number of combining marks on a letter. No script needs more.
const maxMarks = 8

// Text returns text with escapes in place of unsafe characters. These are control characters other than line feeds and
// tabs, changes of direction, and bytes that are not UTF-8. Escapes look like \x1b or \u202e. A character above U+FFFF
// becomes two escapes, a surrogate pair, as in JSON.
func Text(text string) string {
	if isPlain(text) {
		return text
	}
	var out strings.Builder
	for marks := 0; len(text) > 0; {
		r, size := utf8.DecodeRuneInString(text)
		if marks++; !unicode.Is(unicode.M, r) {
			marks = 0
		}
		switch {
		case r == utf8.RuneError && size == 1, r < ' ' && r != '\n' && r != '\t':
			fmt.Fprintf(&out, `\x%02x`, text[0])
		case r == '\n' || r == '\t' || marks <= maxMarks && isShown(r):
			out.WriteString(text[:size])
		case r <= 0xffff:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		}
		text = text[size:]
	}
	return out.String()
}

// isPlain reports whether text has only characters of ASCII that Text keeps.
func isPlain(text string) bool {
	for i := range len(text) {
		if c := text[i]; (c < ' ' && c != '\n' && c != '\t') || c >= 0x7f {
			return false
		}
	}
	return true
}

// isShown reports whether a terminal shows r. Joiners are parts of words in several scripts.
func isShown(r rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return unicode.IsGraphic(r) || r == nonJoiner || r == joiner
}

// Line is like Text, but returns one line: line feeds become \n, and tabs become spaces. It cuts a long line.
func Line(text string) string {
	return cut(strings.NewReplacer("\n", `\n`, "\t", " ").Replace(Text(text)))
}

// Lines is like Text, but cuts long lines.
func Lines(text string) string {
	if len(text) <= MaxRunes {
		return Text(text)
	}
	lines := strings.Split(Text(text), "\n")
	for i, line := range lines {
		lines[i] = cut(line)
	}
	return strings.Join(lines, "\n")
}

// Words replaces each of the given words in text by one line, if the word contains line feeds. It also finds words that
// Text has escaped.
func Words(text string, words ...string) string {
	for _, word := range words {
		if strings.Contains(word, "\n") {
			line := Line(word)
			text = strings.NewReplacer(word, line, Text(word), line).Replace(text)
		}
	}
	return text
}

// cut shortens a line to MaxRunes characters. A shortened line ends with an ellipsis.
func cut(line string) string {
	if len(line) <= MaxRunes {
		return line
	}
	n := 0
	for i := range line {
		if n++; n == MaxRunes {
			if utf8.RuneCountInString(line[i:]) > 1 {
				return line[:i] + "…"
			}
			break
		}
	}
	return line
}

// NewWriter returns a writer that writes each text to w in the form that Text returns.
func NewWriter(w io.Writer) io.Writer { return writer{w} }

type writer struct{ to io.Writer }

func (w writer) Write(p []byte) (int, error) {
	if _, err := io.WriteString(w.to, Text(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Quote quotes word for a shell, if the shell would change it otherwise. The result is one line that is safe to show.
// Characters that Text escapes need a shell with $'…', such as bash.
func Quote(word string) string {
	const plain = "/._-+=,:@%0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	switch {
	case strings.Trim(word, plain) == "" && word != "":
		return word
	case Text(word) == word && !strings.ContainsAny(word, "\n\t"):
		return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	var out strings.Builder
	out.WriteString("$'")
	for len(word) > 0 {
		r, size := utf8.DecodeRuneInString(word)
		switch {
		case r == '\'' || r == '\\':
			out.WriteString(`\` + word[:size])
		case isShown(r) && (r != utf8.RuneError || size > 1):
			out.WriteString(word[:size])
		default:
			for _, c := range []byte(word[:size]) {
				fmt.Fprintf(&out, `\x%02x`, c)
			}
		}
		word = word[size:]
	}
	return out.String() + "'"
}
