package tokenizer

import (
	"math/rand/v2"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"
)

// The normal form, which is computed in parts, is equal to the definition applied to the whole text. For pairs of
// characters the definition agrees with package norm.
func TestNormalForm(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	chars := []rune("aeAoǖᾳ\u0301\u0300\u0323\u0308\u0345\u0327\u0304\u0f71\u0f72\u0f73" +
		"각ᄀ\u1161\u11a8Å\u212bﬁ①क\u093c\u09c7\u09be\u0344\u2126ẛ\u0307")
	for range 5000 {
		var b strings.Builder
		for range 1 + random.IntN(9) {
			b.WriteRune(chars[random.IntN(len(chars))])
		}
		for name, form := range normalForms {
			if got, want := normalForm(form, b.String()), string(appendForm(nil, form, b.String())); got != want {
				t.Fatalf("%s of %+q: got %+q, want %+q", name, b.String(), got, want)
			}
		}
	}
	for _, a := range chars {
		for _, b := range chars {
			for name, form := range normalForms {
				if got, want := normalForm(form, string([]rune{a, b})), form.String(string([]rune{a, b})); got != want {
					t.Fatalf("%s of %+q: got %+q, want %+q", name, string([]rune{a, b}), got, want)
				}
			}
		}
	}
}

// TestNormalFormBeyondNorm has texts for which package norm gives other results. The results here are those of Python's
// unicodedata.
func TestNormalFormBeyondNorm(t *testing.T) {
	const marks = 40
	for text, want := range map[string]string{
		"x" + strings.Repeat("\u0301\u0323", marks) + "e" + strings.Repeat("\u0301", marks): "x" +
			strings.Repeat("\u0323", marks) + strings.Repeat("\u0301", marks) + "é" + strings.Repeat("\u0301", marks-1),
		"\uac01\u0304\u1fb3\u00c5A\u09be\u0f72\u0301\u2126": "\uac01\u0304\u1fb3\u00c5A\u09be\u0f72\u0301\u03a9",
	} {
		if got := normalForm(norm.NFC, text); got != want {
			t.Errorf("got %+q\nwant %+q", got, want)
		}
	}
}
