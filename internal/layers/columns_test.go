package layers

import (
	"os"
	"strings"
	"testing"
	"unicode/utf8"
)

// A line of Go has at most so many columns, outside tests; a tab counts as four.
const columns = 120

func TestColumns(t *testing.T) {
	files := 0
	walk(t, os.DirFS("../.."), func(name string, text []byte) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return
		}
		files++
		for i, line := range strings.Split(string(text), "\n") {
			if n := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")); n > columns {
				t.Errorf("%s:%d: %d columns, want at most %d", name, i+1, n, columns)
			}
		}
	})
	if files < 300 {
		t.Errorf("%d files looked at", files)
	}
}

// TestFileLengths: a file of the packages below roles can be read in one go.
func TestFileLengths(t *testing.T) {
	const lines = 400
	walk(t, os.DirFS("../.."), func(name string, text []byte) {
		if !strings.HasPrefix(name, "roles/") || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return
		}
		if n := strings.Count(string(text), "\n"); n > lines {
			t.Errorf("%s has %d lines, want at most %d", name, n, lines)
		}
	})
}
