package layers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

var link = regexp.MustCompile(`\[([^\]]*)\]\(([^)\s]+)\)`)

// TestLinks: the targets of links in pages exist. A link whose text is an identifier and whose target is a Go file
// names a declaration in the file.
func TestLinks(t *testing.T) {
	root := os.DirFS("../..")
	pages := test.Pages(t, root)
	chinese := test.Must(fs.ReadFile(root, "README.zh-CN.md"))(t)
	pages["README.zh-CN.md"] = string(chinese)
	declared := 0
	for name, text := range pages {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			target, heading, _ := strings.Cut(m[2], "#")
			if strings.Contains(target, ":") { // a link to another site
				continue
			}
			file := path.Join(path.Dir(name), target)
			if target == "" {
				file = name
			}
			if _, err := fs.Stat(root, file); err != nil {
				t.Errorf("%s: link to %s: %v", name, m[2], err)
				continue
			}
			if strings.HasSuffix(file, ".md") && heading != "" {
				page, _ := fs.ReadFile(root, file)
				if !hasHeading(string(page), heading) {
					t.Errorf("%s: link to %s: no such heading", name, m[2])
				}
			}
			if strings.HasSuffix(file, ".go") && identifier.MatchString(m[1]) && m[1] != path.Base(file) {
				declared++
				if !declares(t, root, file, m[1]) {
					t.Errorf("%s: %s declares no %s", name, file, m[1])
				}
			}
		}
	}
	if declared < 60 {
		t.Errorf("%d links to functions and types looked at", declared)
	}
}

var identifier = regexp.MustCompile(`^[A-Za-z]\w*(\.[A-Za-z]\w*)?$`)

// declares reports whether a Go file declares a function, type, constant or variable, or the method M of a type T as
// T.M.
func declares(t *testing.T, root fs.FS, file, name string) bool {
	t.Helper()
	text := test.Must(fs.ReadFile(root, file))(t)
	f := test.Must(parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution))(t)
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			full := d.Name.Name
			if d.Recv != nil {
				full = typeOf(d.Recv.List[0].Type) + "." + full
			}
			if full == name {
				return true
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch s := spec.(type) {
				case *ast.TypeSpec:
					if s.Name.Name == name {
						return true
					}
				case *ast.ValueSpec:
					for _, n := range s.Names {
						if n.Name == name {
							return true
						}
					}
				}
			}
		}
	}
	return false
}

var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}\- ]`)

// hasHeading reports whether a page has a heading with that anchor, made as GitHub makes it.
func hasHeading(page, anchor string) bool {
	for line := range strings.SplitSeq(page, "\n") {
		if text, ok := strings.CutPrefix(line, "#"); ok {
			text = strings.ToLower(strings.TrimSpace(strings.TrimLeft(text, "#")))
			if strings.ReplaceAll(notInAnchor.ReplaceAllString(text, ""), " ", "-") == anchor {
				return true
			}
		}
	}
	return false
}

var picture = regexp.MustCompile(`(?:src="|!\[[^\]]*\]\()([^")]+)`)

// TestTranslation: the Chinese README has the headings, code blocks and links of the English one, in the same order.
// Comments in code are in its own language.
func TestTranslation(t *testing.T) {
	english := test.Must(os.ReadFile("../../README.md"))(t)
	chinese := test.Must(os.ReadFile("../../README.zh-CN.md"))(t)
	e, c := skeleton(string(english)), skeleton(string(chinese))
	for i := range max(len(e), len(c)) {
		if i >= len(e) || i >= len(c) || e[i] != c[i] {
			t.Fatalf("README.zh-CN.md parts from README.md here:\n%q\n%q", c[i:min(i+1, len(c))], e[i:min(i+1, len(e))])
		}
	}
	if len(e) < 80 {
		t.Errorf("%d headings, lines of code and links compared", len(e))
	}
}

var (
	codeComment = regexp.MustCompile(` *(^|[ {])#.*`)
	linkTarget  = regexp.MustCompile(`\]\(([^)]+)\)|src="([^"]+)"`)
)

// skeleton returns the part of a page that is the same in every language: the level of each heading, lines of code
// without comments, the targets of links and pictures.
func skeleton(page string) (parts []string) {
	code := false
	for line := range strings.SplitSeq(page, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			code = !code
			parts = append(parts, line)
		case code:
			parts = append(parts, codeComment.ReplaceAllString(line, ""))
		case strings.HasPrefix(line, "#"):
			parts = append(parts, line[:strings.IndexByte(line, ' ')])
		default:
			for _, m := range linkTarget.FindAllStringSubmatch(line, -1) {
				if m[1] != "README.md" && m[1] != "README.zh-CN.md" { // each links to the other
					parts = append(parts, m[1]+m[2])
				}
			}
		}
	}
	return parts
}

// TestReadme: the README stays short, and has its pictures.
func TestReadme(t *testing.T) {
	const lines, bytes, meanWords, pictureBytes = 150, 9600, 18, 300_000
	root := os.DirFS("../..")
	text := test.Must(fs.ReadFile(root, "README.md"))(t)
	chinese := test.Must(fs.ReadFile(root, "README.zh-CN.md"))(t)
	n := strings.Count(string(text), "\n")
	if n > lines || len(text) > bytes {
		t.Errorf("README.md has %d lines and %d bytes, want at most %d and %d", n, len(text), lines, bytes)
	}
	if z := strings.Count(string(chinese), "\n"); z > n {
		t.Errorf("README.zh-CN.md has %d lines, README.md %d", z, n)
	}
	words, count := 0, 0
	for _, s := range pageSentences(withoutTables(string(text))) {
		words, count = words+s.words(), count+1
	}
	if mean := float64(words) / float64(count); count < 20 || mean > meanWords {
		t.Errorf("README.md: %d sentences of %.1f words on average, want at most %d", count, mean, meanWords)
	}
	for name, page := range map[string]string{"README.md": string(text), "README.zh-CN.md": string(chinese)} {
		kinds := map[string]int{}
		for _, m := range picture.FindAllStringSubmatch(page, -1) {
			info, err := fs.Stat(root, m[1])
			if err != nil || info.Size() > pictureBytes {
				t.Errorf("%s: %s: %v, want a picture of at most %d bytes", name, m[1], err, pictureBytes)
			}
			kinds[path.Ext(m[1])]++
		}
		if kinds[".svg"] < 2 || kinds[".gif"]+kinds[".webp"] < 1 {
			t.Errorf("%s: pictures %v, want a curve, a film and the placement", name, kinds)
		}
	}
}

// withoutTables returns a page without its tables, whose cells are rarely sentences.
func withoutTables(page string) string {
	var kept []string
	for line := range strings.SplitSeq(page, "\n") {
		if !strings.HasPrefix(line, "|") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

// TestPagesStayShort: the page about the architecture is short.
func TestPagesStayShort(t *testing.T) {
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil || len(text) > 13000 {
		t.Errorf("docs/architecture.md has %d bytes, %v; want at most 13000", len(text), err)
	}
}

var stepsPerSecond = regexp.MustCompile(`\b(\d[\d,]*)\s+environment\s+steps\s+per\s+second`)

// TestSpeedFigures: docs/speed.md has the measured steps per second of whole jobs in one table. Other pages repeat its
// figures.
func TestSpeedFigures(t *testing.T) {
	pages := test.Pages(t, os.DirFS("../.."))
	known := map[string]bool{}
	for _, m := range stepsPerSecond.FindAllStringSubmatch(pages["docs/speed.md"], -1) {
		known[m[1]] = true
	}
	if len(known) < 5 {
		t.Errorf("docs/speed.md has %d figures", len(known))
	}
	for name, text := range pages {
		for _, m := range stepsPerSecond.FindAllStringSubmatch(text, -1) {
			if !known[m[1]] {
				t.Errorf("%s: %s environment steps per second: docs/speed.md has no such figure", name, m[1])
			}
		}
	}
}
