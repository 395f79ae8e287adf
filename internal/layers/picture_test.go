package layers

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

var code = regexp.MustCompile("`([^`]+)`")

// TestPicture: the picture and the table of packages in docs/architecture.md, the rows of layers and the code are one
// order. A room of the picture imports only from rooms on lower floors. A package is in the room with the longest path.
func TestPicture(t *testing.T) {
	text := test.Must(os.ReadFile("../../docs/architecture.md"))(t)
	_, section, _ := strings.Cut(string(text), "\n## Layout")
	section, _, _ = strings.Cut(section, "\n## ")
	parts := strings.Split(section, "```\n")
	if len(parts) != 3 {
		t.Fatalf("%d parts, want a picture between two texts", len(parts))
	}
	floors := map[string]int{}
	for i, line := range strings.Split(parts[1], "\n") {
		for _, room := range strings.Fields(strings.Replace(line, "main", ".", 1)) {
			floors[room] = i
		}
	}
	room := func(name string) (longest string) {
		for r := range floors {
			if matches(r+"/...", name) && len(r) > len(longest) {
				longest = r
			}
		}
		return longest
	}
	// in checks that a list has every room of the picture, from the top to the bottom.
	in := func(what string, names []string) {
		seen, floor := map[string]bool{}, 0
		for _, name := range names {
			r := room(name)
			if r == "" || floors[r] < floor {
				t.Errorf("%s: %s is not where the picture has it", what, name)
			}
			seen[r], floor = true, floors[r]
		}
		for r := range floors {
			if !seen[r] {
				t.Errorf("%s: no %s", what, r)
			}
		}
	}
	var rows, packages []string
	for _, l := range layers {
		rows = append(rows, strings.TrimSuffix(l.path, "/..."))
	}
	in("the table of layers", rows)
	for line := range strings.SplitSeq(parts[2], "\n") {
		cell, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		before := ""
		for _, m := range code.FindAllStringSubmatch(cell, -1) {
			name := strings.TrimSuffix(m[1], "/...")
			if rest, below := strings.CutPrefix(name, "…/"); below {
				name = before + "/" + rest
			} else {
				before = name
			}
			if _, err := os.Stat("../../" + strings.Replace(name, "main", "main.go", 1)); err != nil {
				t.Errorf("the table of packages: %v", err)
			}
			packages = append(packages, strings.Replace(name, "main", ".", 1))
		}
	}
	in("the table of packages", packages)
	imports(t, os.DirFS("../.."), func(name string, list []string) {
		from := room(path.Dir(name))
		if strings.HasSuffix(name, "_test.go") {
			return
		}
		for _, to := range list {
			if r := room(to); r != "" && r != from && floors[r] <= floors[from] {
				t.Errorf("%s imports %s: the picture has %s above or beside it", name, to, r)
			}
		}
	})
	if !slices.Contains(packages, "roles") {
		t.Error("the table of packages was not read")
	}
}
