package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/params"
)

type ownSection struct {
	Kind string     `yaml:"kind"`
	Rate float64    `yaml:"rate"`
	Own  params.Own `yaml:",inline"`
}

type ownRoot struct {
	Name    string     `yaml:"name"`
	Section ownSection `yaml:"section"`
}

type ownOne struct {
	Depth int `yaml:"depth" doc:"how deep"`
	Sides struct {
		Left []int `yaml:"left" doc:"what is left"`
	} `yaml:"sides"`
}

// loadOwn decodes text into a root. Its section has the keys of ownOne if its kind is one.
func loadOwn(t *testing.T, text string, overrides ...string) (*ownRoot, *Check) {
	t.Helper()
	root := &ownRoot{Section: ownSection{Kind: "none", Rate: 1}}
	tree := test.Must(Load(filepath.Join(write(t, "c.yaml", text), "c.yaml"), overrides, Options{
		Known: []Known{{Key: "section.**"}}, Defaults: root,
		Choose: func(given func(string) (string, bool)) []Known {
			if kind, ok := given("section.kind"); ok && kind == "one" {
				root.Section.Own = params.New(ownOne{Depth: 3})
			}
			return nil
		},
		Owner: func(key string) (string, bool) {
			if kind := root.Section.Kind; key == "section.sides" || key == "section.depth" {
				return map[bool]string{false: "kind one"}[kind == "unknown"], true
			}
			return "", false
		},
	}))(t)
	return root, tree.Decode(root)
}

func TestOwn(t *testing.T) {
	root, check := loadOwn(t, "name: one\nsection:\n  kind: ${name}\n  rate: ${.depth}\n  sides: {left: [1, 2]}\n",
		"name=one")
	own, ok := root.Section.Own.Values().(*ownOne)
	if err := check.Err(); err != nil || !ok || own.Depth != 3 || len(own.Sides.Left) != 2 || root.Section.Rate != 3 {
		t.Fatalf("%v: %+v, with %+v", err, root, own)
	}
	text, err := Marshal(root)
	const want = "name: one\nsection:\n    kind: one\n    rate: 3\n    depth: 3\n    sides:\n        left:\n         " +
		"   - 1\n            - 2\n"
	if err != nil || string(text) != want {
		t.Errorf("written as\n%s(%v), want\n%s", text, err, want)
	}
	var lines []string
	for _, k := range check.Own(root) {
		lines = append(lines,
			strings.Join([]string{k.Key, k.Value, k.Origin[max(strings.LastIndex(k.Origin, "/"), 0):], k.Doc}, "|"))
	}
	if got, want := strings.Join(lines, "\n"),
		"section.depth|3||how deep\nsection.sides.left|[1, 2]|/c.yaml:5|what is left"; got != want {
		t.Errorf("own keys\n%s\nwant\n%s", got, want)
	}
}

func TestOwnMistakes(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"section: {kind: one, depth: deep}", "section.depth: deep: expected a whole number"},
		{"section: {kind: one, dept: 1}", "section.dept: unknown key, did you mean depth?"},
		{"section: {kind: one, sides: {lef: []}}", "section.sides.lef: unknown key, did you mean left?"},
		{"section: {kind: none, depth: 1}", "section.depth: a key of kind one, which is not chosen"},
		{"section: {kind: unknown, depth: 1}", ""},
		{"section: {kind: none, other: 1}", ""}, // a known key
	} {
		_, check := loadOwn(t, c.text)
		got := ""
		if err := check.Err(); err != nil {
			_, got, _ = strings.Cut(err.Error(), "c.yaml:1: ")
		}
		test.Equal(t, got, c.want, "%s", c.text)
	}
}

// TestOwnTwice: a part cannot have a key that the section has.
func TestOwnTwice(t *testing.T) {
	type own struct {
		Rate int `yaml:"rate" doc:"how fast"`
	}
	defer func() {
		if text, _ := recover().(string); text != "config: section.rate: two fields for one key" {
			t.Errorf("panicked with %q", text)
		}
	}()
	tree := test.Must(Parse("c.yaml", []byte("section: {kind: one}"), Options{}))(t)
	tree.Decode(&ownRoot{Section: ownSection{Own: params.New(own{})}})
}
