package params_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/params"
)

type wind struct {
	Force float64       `yaml:"force" doc:"how strong it is"`
	Every time.Duration `yaml:"every" doc:"how often it blows"`
}

type weather struct {
	Wind   wind  `yaml:"wind"`
	Clouds []int `yaml:"clouds" doc:"how many there are"`
	clouds int   // is no key
}

func (w *weather) Check(want func(ok bool, key string, value any, want string)) {
	want(w.Wind.Force >= 0, "wind.force", w.Wind.Force, "a number >= 0")
	want(len(w.Clouds) < 3, "clouds", w.Clouds, "two at most")
}

func TestKeys(t *testing.T) {
	own := params.New(weather{Wind: wind{Force: 2}, Clouds: []int{1}, clouds: 1})
	var lines []string
	for _, k := range own.Keys() {
		lines = append(lines, k.Name+": "+k.Doc)
	}
	if want := []string{"wind.force: how strong it is", "wind.every: how often it blows",
		"clouds: how many there are"}; !slices.Equal(lines, want) {
		t.Errorf("got %q\nwant %q", lines, want)
	}
	if own.Keys()[0].Value != 2.0 {
		t.Errorf("wind.force is %v, want 2", own.Keys()[0].Value)
	}
	if !own.Has("wind") || own.Has("force") || own.Has("rain") || (params.Own{}).Has("wind") {
		t.Error("it has wind alone")
	}
}

func TestGet(t *testing.T) {
	defaults := weather{Clouds: []int{7}}
	if w, err := params.Get(params.Own{}, defaults); err != nil || w.Clouds[0] != 7 {
		t.Errorf("%+v (%v), want the defaults", w, err)
	}
	if w, err := params.Get(params.New(weather{Wind: wind{Force: 3}}), defaults); err != nil || w.Wind.Force != 3 {
		t.Errorf("%+v (%v), want what was given", w, err)
	}
	if _, err := params.Get(params.New(wind{}), defaults); err == nil ||
		!strings.Contains(err.Error(), "expected *params_test.weather") {
		t.Errorf("another part's: %v", err)
	}
	if _, err := params.Get(params.New(weather{Wind: wind{Force: -1}}), defaults); err == nil ||
		err.Error() != "wind.force: -1: expected a number >= 0" {
		t.Errorf("a value that Check refuses: %v", err)
	}
}

func TestClone(t *testing.T) {
	own := params.New(wind{Force: 1})
	own.Clone().Values().(*wind).Force = 2
	if got := own.Values().(*wind).Force; got != 1 {
		t.Errorf("%v after the clone was changed, want 1", got)
	}
	if !(params.Own{}).Clone().IsZero() {
		t.Error("the clone of none is some")
	}
}

type named func(ok bool, key string, value any, want string)

type withNamed struct {
	A int `yaml:"a" doc:"a"`
}

func (w withNamed) Check(want named) { want(false, "a", w.A, "another") }

type otherCheck struct {
	A int `yaml:"a" doc:"a"`
}

func (otherCheck) Check() {}

// TestCheckOfNamedType: the function that Check takes may be of a type with a name.
func TestCheckOfNamedType(t *testing.T) {
	var keys []string
	params.New(withNamed{}).Check(func(ok bool, key string, value any, want string) { keys = append(keys, key) })
	if !slices.Equal(keys, []string{"a"}) {
		t.Errorf("%q were checked, want a", keys)
	}
}

func TestNewPanics(t *testing.T) {
	type noTag struct{ A int }
	type noDoc struct {
		A int `yaml:"a"`
	}
	type dotted struct {
		A int `yaml:"a.b" doc:"a"`
	}
	type twice struct {
		A int `yaml:"a" doc:"a"`
		B int `yaml:"a" doc:"b"`
	}
	type omits struct {
		A int `yaml:"a,omitempty" doc:"a"`
	}
	for want, make := range map[string]func(){
		"int: expected a struct":                        func() { params.New(1) },
		"expected a struct with exported fields":        func() { params.New(struct{}{}) },
		"noTag.A: expected a yaml tag with the name":    func() { params.New(noTag{}) },
		"noDoc.A: expected a doc tag":                   func() { params.New(noDoc{}) },
		"dotted.A: expected a yaml tag with the name":   func() { params.New(dotted{}) },
		"twice.B: two fields for the key a":             func() { params.New(twice{}) },
		"omits.A: expected a yaml tag without options,": func() { params.New(omits{}) },
		"otherCheck: Check is func()":                   func() { params.New(otherCheck{}) },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, want) {
					t.Errorf("panicked with %q, want %s", text, want)
				}
			}()
			make()
		}()
	}
}
