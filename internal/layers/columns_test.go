package layers

import (
	"go/scanner"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// A line of Go or C has at most so many columns; a tab counts as four. Lines with a part of a raw string of several
// lines may be longer: they are data.
const columns = 120

func TestColumns(t *testing.T) {
	files := 0
	walk(t, os.DirFS("../.."), func(name string, text []byte) {
		files++
		for _, l := range longLines(name, text) {
			t.Errorf("%s:%d: more than %d columns", name, l, columns)
		}
	})
	if files < 900 {
		t.Errorf("%d files looked at", files)
	}
}

func TestColumnRuleBites(t *testing.T) {
	long := strings.Repeat("x", columns+1)
	for name, text := range map[string]string{
		"a.go": "package a\n\n// " + long + "\nvar x = `\n" + long + "\n`\nvar y = `" + long + "`\n\tvar " +
			long[:columns-8] + "\n",
		"a.h": "\n\n/* " + long + " */\n\n\n/* `\n*/ int " + long + ";\n",
	} {
		want := map[string][]int{"a.go": {3, 7}, "a.h": {3, 7}}[name]
		if got := longLines(name, []byte(text)); !slices.Equal(got, want) {
			t.Errorf("%s: lines %v are too long, want %v", name, got, want)
		}
	}
}

// longLines returns the numbers of the lines that have too many columns.
func longLines(name string, text []byte) (long []int) {
	data := map[int]bool{}
	if strings.HasSuffix(name, ".go") {
		data = rawLines(text)
	}
	for i, line := range strings.Split(string(text), "\n") {
		if utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    ")) > columns && !data[i+1] {
			long = append(long, i+1)
		}
	}
	return long
}

// rawLines returns the lines of Go that contain a part of a raw string of several lines.
func rawLines(text []byte) map[int]bool {
	lines := map[int]bool{}
	files := token.NewFileSet()
	var s scanner.Scanner
	s.Init(files.AddFile("", -1, len(text)), text, nil, 0)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok == token.STRING && lit[0] == '`' {
			first, more := files.Position(pos).Line, strings.Count(lit, "\n")
			for i := first; more > 0 && i <= first+more; i++ {
				lines[i] = true
			}
		}
	}
}

// TestFileLengths: a file of the packages below roles is short.
func TestFileLengths(t *testing.T) {
	const lines = 400
	walk(t, os.DirFS("../.."), func(name string, text []byte) {
		if !strings.HasPrefix(name, "roles/") || !strings.HasSuffix(name, ".go") ||
			strings.HasSuffix(name, "_test.go") {
			return
		}
		if n := strings.Count(string(text), "\n"); n > lines {
			t.Errorf("%s has %d lines, want at most %d", name, n, lines)
		}
	})
}
