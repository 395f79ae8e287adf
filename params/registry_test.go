package params_test

import (
	"slices"
	"testing"

	"github.com/rlinf/rlinf/params"
)

// TestRegistry: names keep their order, a part has its own keys, a copy with another part leaves the registry as it is,
// and a name stands once.
func TestRegistry(t *testing.T) {
	type keys struct {
		Bound float32 `yaml:"bound" doc:"Of something."`
	}
	var r params.Registry[func() int]
	r.Add("one", func() int { return 1 })
	r.AddOwn("two", params.New(keys{3}), func() int { return 2 })
	other := r.With("two", func() int { return 4 })
	more := other.With("five", func() int { return 5 })
	for _, c := range []struct {
		r     *params.Registry[func() int]
		names []string
		two   int
		bound string
	}{{&r, []string{"one", "two"}, 2, "two"}, {&other, []string{"one", "two"}, 4, ""},
		{&more, []string{"one", "two", "five"}, 4, ""}} {
		build, ok := c.r.Builder("two")
		if !slices.Equal(c.r.Names(), c.names) || !ok || build() != c.two || c.r.PartWith("bound") != c.bound {
			t.Errorf("%v: two makes %d, bound is of %q; want %+v", c.r.Names(), build(), c.r.PartWith("bound"), c)
		}
	}
	if _, ok := r.Builder("three"); ok || !r.Own("one").IsZero() || !r.Own("three").IsZero() ||
		!r.Own("two").Has("bound") {
		t.Error("three is there, or keys are another part's")
	}
	defer func() {
		if recover() == nil {
			t.Error("a name stands twice")
		}
	}()
	r.Add("one", nil)
}
