package printable

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rlinf/rlinf/internal/test"
)

// texts has texts and what Text makes of them.
var texts = map[string]string{
	"":                                "",
	"zwölf 机器人\u3000\U0001f916\n\tok": "zwölf 机器人\u3000\U0001f916\n\tok",
	"हिन्दी ไทยที่ עִבְרִית می\u200cخواهم e\u0301": "हिन्दी ไทยที่ עִבְרִית می\u200cخواهم e\u0301",
	"\x1b]0;title\a\x1b[2J":              `\x1b]0;title\x07\x1b[2J`,
	"10%\r20%\b\x00\x7f":                 `10%\x0d20%\x08\x00\u007f`,
	"\u009b2J \u202eright to left\u200e": `\u009b2J \u202eright to left\u200e`,
	"\u2028\ufeff\u2066":                 `\u2028\ufeff\u2066`,
	"\xff\x80\xe4\xbd":                   `\xff\x80\xe4\xbd`,
	"\ufffd \U000e0001":                  "\ufffd " + `\udb40\udc01`,
	"z" + strings.Repeat("\u0301", 10):   "z" + strings.Repeat("\u0301", 8) + `\u0301\u0301`,
}

func TestText(t *testing.T) {
	for text, want := range texts {
		test.Equal(t, Text(text), want, "%q", text)
	}
}

// TestWriter: JSON that passes a writer stays the same JSON.
func TestWriter(t *testing.T) {
	for text := range texts {
		text = strings.ToValidUTF8(text, "?")
		var out strings.Builder
		test.OK(t, json.NewEncoder(NewWriter(&out)).Encode(text))
		var got string
		if err := json.Unmarshal([]byte(out.String()), &got); err != nil || got != text {
			t.Errorf("%q: %s is %q, %v", text, out.String(), got, err)
		}
		if clean := Text(out.String()); clean != out.String() {
			t.Errorf("%q: %q", text, out.String())
		}
	}
}

func TestLine(t *testing.T) {
	long := strings.Repeat("é", MaxRunes)
	for text, want := range map[string]string{
		"a\nrun: done\tb": `a\nrun: done b`, long: long, long + "x": long[:len(long)-2] + "…",
		strings.Repeat("\x1b", 2<<20): strings.Repeat(`\x1b`, MaxRunes/4)[:MaxRunes-1] + "…",
	} {
		if got := Line(text); got != want || utf8.RuneCountInString(got) > MaxRunes {
			t.Errorf("%.20q…: %.20q… of %d bytes, want %.20q…", text, got, len(got), want)
		}
	}
	if got, want := Lines(long+"xy\nb\r\n"), Line(long+"xy")+"\nb"+`\x0d`+"\n"; got != want {
		t.Errorf("lines: %q, want %q", got, want)
	}
}

// TestQuote: a shell reads the word that was quoted, and the quoted word is one line without control characters.
func TestQuote(t *testing.T) {
	for word, want := range map[string]string{"logs/a-1,b=2": "logs/a-1,b=2", "a b": "'a b'", "it's": `'it'\''s'`,
		"$HOME": "'$HOME'", "": "''", "a\n'": `$'a\x0a\''`} {
		test.Equal(t, Quote(word), want, "%q", word)
	}
	words := []string{"", "a b", "it's", "$HOME", `a\nb`, "a\nb", "-x", "'\x1b[2J'", "\t", "zwölf", "日本\u202e",
		"\xff", "~", "*", `\'` + "\x01", strings.Repeat("long ", 1000)}
	var line strings.Builder
	for _, word := range words {
		quoted := Quote(word)
		line.WriteString(" " + quoted)
		if Text(quoted) != quoted || strings.ContainsAny(quoted, "\n\t") {
			t.Errorf("%q is quoted as %q", word, quoted)
		}
	}
	out, err := exec.Command("bash", "-c", `printf '%s\0'`+line.String()).Output()
	if want := strings.Join(words, "\x00") + "\x00"; err != nil || string(out) != want {
		t.Errorf("%v\nbash reads %q\nwant       %q", err, out, want)
	}
}
