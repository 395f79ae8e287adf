package args

import "testing"

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "",
		"rank 3: déjà vu, 加法 ▁█":         "rank 3: déjà vu, 加法 ▁█",
		"\x1b[2J\x9b31m\r\n\x00\x7f":     "?[2J?31m????",
		"a\tb\u202ec\u2028d\u0301\ufeff": "a b?c?d?",
		"\xff\xc0":                       "??",
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
