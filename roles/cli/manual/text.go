package manual

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	settings "github.com/rlinf/rlinf/roles/config"
)

// columns is the maximum width of a line.
const columns = 96

// writeKey writes the description of one key.
func writeKey(out io.Writer, k settings.ManualEntry) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n%s\n", k.Name, wrap(k.Doc, "    "))
	line := func(name, text string) { fmt.Fprintf(&b, "    %-13s %s\n", name, text) }
	line("type", k.Type)
	if k.Part != "" {
		line("only with", k.Part)
	}
	if !k.Section {
		line("default", cmp.Or(defaultOf(k), "-"))
	}
	switch {
	case k.Ours:
		line("key of RLinf", "no")
	default:
		line("key of RLinf", "yes")
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// writeKeys writes a line and the meaning of each key.
func writeKeys(out io.Writer, keys []settings.ManualEntry) error {
	var b strings.Builder
	for _, k := range keys {
		mark := ""
		if k.Ours {
			mark = " +"
		}
		about := k.Type
		if count := defaultOf(k); count != "" {
			about += ", default " + count
		}
		if k.Part != "" {
			about += ", only with " + k.Part
		}
		fmt.Fprintf(&b, "%s%s: %s\n%s", k.Name, mark, about, wrap(k.Doc, "    "))
	}
	b.WriteString("\n+ RLinf does not have this key.\n")
	_, err := io.WriteString(out, b.String())
	return err
}

// defaultOf returns the default of a key in words. It returns "" if the key has no default.
func defaultOf(k settings.ManualEntry) string {
	if k.From != "" {
		return "as " + k.From
	}
	return k.Default
}

// wrap breaks a text into indented lines.
func wrap(text, indent string) string {
	var b strings.Builder
	line := indent
	for word := range strings.FieldsSeq(text) {
		if line != indent && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > columns {
			b.WriteString(line + "\n")
			line = indent
		}
		if line != indent {
			line += " "
		}
		line += word
	}
	if line != indent {
		b.WriteString(line + "\n")
	}
	return b.String()
}
