package manual

import (
	_ "embed" // keys.txt
	"fmt"
	"strings"

	settings "github.com/rlinf/rlinf/roles/config"
)

// Regenerate is the command that regenerates docs/reference.
const Regenerate = "go test ./roles/cli -run TestReference -update"

// keysHead is the beginning of the page. %s stands for the command that regenerates it.
//
//go:embed keys.txt
var keysHead string

// Markdown returns a page about keys.
func Markdown(reg settings.Registries, keys []settings.ManualEntry) string {
	var b strings.Builder
	fmt.Fprintf(&b, keysHead, Regenerate)
	for _, t := range tables(keys) {
		if t.told {
			continue
		}
		writeHeading(&b, t.section)
		t.writeShares(&b)
		if len(t.rows) > 0 {
			b.WriteString("\n| key | type | default | meaning |\n|---|---|---|---|\n")
		}
		for _, k := range t.rows {
			writeRow(&b, k)
		}
	}
	writeWithoutEffect(&b, reg)
	return b.String()
}

// parent returns the section of a key.
func parent(key string) string {
	section := strings.TrimSuffix(key[:max(strings.LastIndexByte(key, '.'), 0)], ".<name>")
	return strings.TrimSuffix(section, "[]")
}

func writeHeading(b *strings.Builder, k settings.ManualEntry) {
	level, suffix := "###", ""
	if !strings.Contains(k.Name, ".") {
		level = "##"
	}
	switch k.Type {
	case "map":
		suffix = ".<name>"
	case "list of sections":
		suffix = "[]"
	}
	fmt.Fprintf(b, "\n%s `%s%s`%s\n", level, k.Name, suffix, mark(k))
	if k.Like != "" {
		fmt.Fprintf(b, "\nKeys as in `%s`. %s\n", k.Like, escape(sentence(k.Doc)))
	} else if k.Doc != "" {
		fmt.Fprintf(b, "\n%s\n", escape(sentence(k.Doc)))
	}
}

func writeRow(b *strings.Builder, k settings.ManualEntry) {
	text := escape(k.Doc)
	if k.Like != "" {
		text = fmt.Sprintf("as `%s`", k.Like)
	}
	if k.Part != "" {
		text = fmt.Sprintf("%s Only with %s.", strings.TrimSuffix(text, ".")+".", k.Part)
	}
	count := defaultOf(k)
	switch {
	case k.From != "":
		count = fmt.Sprintf("as `%s`", k.From)
	case count == "":
		count = "-"
	default:
		count = "`" + count + "`"
	}
	fmt.Fprintf(b, "| `%s`%s | %s | %s | %s |\n", k.Name, mark(k), k.Type, count, text)
}

func mark(k settings.ManualEntry) string {
	if k.Ours {
		return " **+**"
	}
	return ""
}

// escape escapes characters that have a meaning in Markdown.
func escape(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`).Replace(text)
}

// writeWithoutEffect lists RLinf's keys that have no effect here, and old names.
func writeWithoutEffect(b *strings.Builder, reg settings.Registries) {
	b.WriteString("\n## Keys of RLinf without effect\n\nThese are accepted. A value that asks for something is " +
		"listed in a warning, and is an error with `--strict`.\n`*` stands for any one name and `**` for all keys " +
		"below.\n\n")
	b.WriteString("```\n")
	for _, key := range settings.KeysWithoutEffect(reg) {
		b.WriteString(key + "\n")
	}
	b.WriteString("```\n\n## Old names\n\nRLinf's releases before v0.1 had these names. They are still read.\n\n" +
		"| old name | today |\n|---|---|\n")
	for _, o := range settings.OldNames() {
		fmt.Fprintf(b, "| `%s` | `%s` |\n", o.Old, strings.ReplaceAll(o.Today, ", ", "`, `"))
	}
}
