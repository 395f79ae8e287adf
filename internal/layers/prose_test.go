package layers

import (
	"fmt"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/rlinf/rlinf/internal/test"
)

// A sentence of a page or of a doc comment has at most so many words. Most have fewer than 20.
const sentenceWords = 40

// A sentence of a page or of a comment, with its line.
type sentence struct {
	line int
	text string
}

func (s sentence) words() (n int) {
	for w := range strings.FieldsSeq(s.text) {
		if strings.ContainsFunc(w, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
			n++
		}
	}
	return n
}

func TestSentences(t *testing.T) {
	root := os.DirFS("../..")
	pages, comments := 0, 0
	for name, text := range test.Pages(t, root) {
		for _, s := range pageSentences(text) {
			pages++
			if n := s.words(); n > sentenceWords {
				t.Errorf("%s:%d: %d words, want at most %d: %.80s…", name, s.line, n, sentenceWords, s.text)
			}
		}
	}
	walk(t, root, func(name string, text []byte) {
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, s := range commentSentences(t, name, text) {
			comments++
			if n := s.words(); n > sentenceWords {
				t.Errorf("%s:%d: %d words, want at most %d: %.80s…", name, s.line, n, sentenceWords, s.text)
			}
		}
	})
	if pages < 1000 || comments < 4000 {
		t.Errorf("%d sentences of pages and %d of comments looked at", pages, comments)
	}
}

var (
	listItem  = regexp.MustCompile(`^\s*(?:[-*]|\d+\.)\s+(.*)`)
	codeSpan  = regexp.MustCompile("`[^`]*`")
	markdownA = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	htmlTag   = regexp.MustCompile(`<[^>]*>`)
)

// pageSentences returns the sentences of a page, without code, headings and the targets of links. Each cell of a table
// stands alone.
func pageSentences(page string) (all []sentence) {
	var paragraph []string
	start, fenced := 0, false
	flush := func() {
		all = append(all, sentences(start, plain(strings.Join(paragraph, " ")))...)
		paragraph = nil
	}
	for i, line := range strings.Split(page, "\n") {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(text, "```"):
			flush()
			fenced = !fenced
		case fenced:
		case text == "" || strings.HasPrefix(text, "#"):
			flush()
		case strings.HasPrefix(text, "|"):
			flush()
			for _, cell := range strings.Split(strings.ReplaceAll(text, `\|`, " "), "|") {
				all = append(all, sentences(i+1, plain(cell))...)
			}
		default:
			if m := listItem.FindStringSubmatch(line); m != nil {
				flush()
				text = m[1]
			}
			if len(paragraph) == 0 {
				start = i + 1
			}
			paragraph = append(paragraph, text)
		}
	}
	flush()
	return all
}

func plain(text string) string {
	text = codeSpan.ReplaceAllString(text, "code")
	text = markdownA.ReplaceAllString(text, "$1")
	return htmlTag.ReplaceAllString(text, " ")
}

// commentSentences returns the sentences of a Go file's comments, without the code in them.
func commentSentences(t *testing.T, name string, text []byte) (all []sentence) {
	t.Helper()
	files := token.NewFileSet()
	f := test.Must(parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution))(t)
	for _, group := range f.Comments {
		line := files.Position(group.Pos()).Line
		var blocks func(list []comment.Block)
		blocks = func(list []comment.Block) {
			for _, b := range list {
				switch b := b.(type) {
				case *comment.Paragraph:
					all = append(all, sentences(line, inline(b.Text))...)
				case *comment.List:
					for _, item := range b.Items {
						blocks(item.Content)
					}
				}
			}
		}
		blocks(new(comment.Parser).Parse(group.Text()).Content)
	}
	return all
}

func inline(list []comment.Text) string {
	var b strings.Builder
	for _, x := range list {
		switch x := x.(type) {
		case comment.Plain:
			b.WriteString(string(x))
		case comment.Italic:
			b.WriteString(string(x))
		case *comment.Link:
			b.WriteString(inline(x.Text))
		case *comment.DocLink:
			b.WriteString(inline(x.Text))
		}
	}
	return b.String()
}

// abbreviations end in a dot that does not end a sentence.
var abbreviations = map[string]bool{"al.": true, "e.g.": true, "i.e.": true, "cf.": true, "eq.": true, "vs.": true,
	"etc.": true, "no.": true}

// sentences divides a paragraph into sentences.
func sentences(line int, text string) (all []sentence) {
	var words []string
	for w := range strings.FieldsSeq(text) {
		words = append(words, w)
		bare := strings.TrimRight(w, `)"”*_`)
		if strings.HasSuffix(bare, "!") || strings.HasSuffix(bare, "?") ||
			strings.HasSuffix(bare, ".") && !abbreviations[strings.TrimLeft(bare, "(")] {
			all, words = append(all, sentence{line, strings.Join(words, " ")}), nil
		}
	}
	if len(words) > 0 {
		all = append(all, sentence{line, strings.Join(words, " ")})
	}
	return all
}

func TestSentenceRuleBites(t *testing.T) {
	long := strings.Repeat("word ", 41)
	page := "# Title\n\nShort one, et al. 2017. " + long + "end.\n\n```sh\n" + long + "\n```\n\n- item `" + long +
		"` here\n\n| a. b | " + long + " |\n"
	var got []string
	for _, s := range pageSentences(page) {
		got = append(got, fmt.Sprint(s.line, ":", s.words()))
	}
	if want := "3:5 3:42 9:3 11:1 11:1 11:41"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", strings.Join(got, " "), want)
	}
	code := "// Package x is short.\n//\n//\t" + long + "\n//\n// " + long +
		"\npackage x\n\n// f: one. Two.\nfunc f() {}\n"
	got = nil
	for _, s := range commentSentences(t, "x.go", []byte(code)) {
		got = append(got, fmt.Sprint(s.line, ":", s.words()))
	}
	if want := "1:4 1:41 8:2 8:1"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", strings.Join(got, " "), want)
	}
}
