package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// A normalizer is a step that changes a text before the text is split. Only the fields of one kind of step are set.
type normalizer struct {
	form     *norm.Form // a Unicode normal form
	prepend  string     // put before a text that is not empty
	old, new string     // old is replaced by new everywhere
}

func normalize(steps []normalizer, text string, at position) string {
	for _, s := range steps {
		switch {
		case s.form != nil:
			text = normalForm(*s.form, text)
		case s.prepend != "":
			if text != "" && at != continuing {
				text = s.prepend + text
			}
		default:
			text = strings.ReplaceAll(text, s.old, s.new)
		}
	}
	return text
}

// normalForm returns a normal form of text as UAX 15 defines it. Package norm alone gives another result: it inserts
// U+034F into runs of more than 30 marks (the Stream-Safe Text Format), and composes some marks with a character before
// the last starter.
func normalForm(form norm.Form, text string) string {
	n := form.QuickSpanString(text)
	if n == len(text) {
		return text
	}
	var out []rune
	for text != "" {
		for _, r := range text[:n] {
			out = append(out, r)
		}
		text = text[n:]
		// After the first character, normalize everything up to the next boundary together.
		end := 0
		for end < len(text) {
			p := form.PropertiesString(text[end:])
			if end > 0 && p.BoundaryBefore() {
				break
			}
			end += max(1, p.Size())
		}
		out = appendForm(out, form, text[:end])
		text = text[end:]
		n = form.QuickSpanString(text)
	}
	return string(out)
}

// appendForm appends the normal form of text, by the definition: decompose, sort the marks, compose.
func appendForm(out []rune, form norm.Form, text string) []rune {
	var chars []markedRune
	sorted := 0 // characters before this index are in order
	for _, r := range text {
		for _, d := range norm.NFD.String(string(r)) {
			m := markedRune{d, form.PropertiesString(string(d)).CCC()}
			chars = append(chars, m)
			if m.ccc == 0 {
				sortMarks(chars[sorted:])
				sorted = len(chars)
			}
		}
	}
	sortMarks(chars[sorted:])
	if form == norm.NFC {
		chars = compose(chars)
	}
	for _, m := range chars {
		out = append(out, m.r)
	}
	return out
}

// A markedRune is a character with its canonical combining class. A character of class 0 is a starter.
// Marks are not sorted across a starter.
type markedRune struct {
	r   rune
	ccc uint8
}

// sortMarks sorts a run of marks. The last element may be the starter that ends the run.
func sortMarks(run []markedRune) {
	if n := len(run) - 1; n >= 0 && run[n].ccc == 0 {
		run = run[:n]
	}
	slices.SortStableFunc(run, func(a, b markedRune) int { return int(a.ccc) - int(b.ccc) })
}

// compose combines characters with the last starter before them, in place. It combines two characters if they have a
// composition and no character of the same or a higher class is between them.
func compose(chars []markedRune) []markedRune {
	out := chars[:0]
	starter := -1
	for _, m := range chars {
		n := len(out)
		if starter >= 0 && (starter == n-1 || out[n-1].ccc < m.ccc) {
			pair := norm.NFC.String(string([]rune{out[starter].r, m.r}))
			if r, size := utf8.DecodeRuneInString(pair); size == len(pair) {
				out[starter].r = r
				continue
			}
		}
		if m.ccc == 0 {
			starter = n
		}
		out = append(out, m)
	}
	return out
}
