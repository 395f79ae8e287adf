package jinja

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// Templates give the texts of Jinja2, or an error where Jinja2 gives one. testdata/table.py made the table.
func TestTable(t *testing.T) {
	text, err := os.ReadFile("testdata/table.json")
	test.OK(t, err)
	var table struct {
		Values map[string]json.RawMessage
		Cases  []struct {
			Template, Error string
			Text            *string
		}
	}
	test.OK(t, json.Unmarshal(text, &table))
	used := map[string]bool{}
	for _, c := range table.Cases {
		values := map[string]any{}
		for name, v := range table.Values {
			if values[name], err = FromJSON(v); err != nil {
				t.Fatal(err)
			}
		}
		used[c.Template] = true
		got := ""
		template, err := Parse(c.Template)
		if err == nil {
			got, err = template.Render(values)
		}
		switch {
		case c.Text == nil && err == nil:
			t.Errorf("%s: got %q, expected an error as %q", c.Template, got, c.Error)
		case c.Text != nil && (err != nil || got != *c.Text):
			t.Errorf("%s:\n got %q, %v\nwant %q", c.Template, got, err, *c.Text)
		}
	}
	t.Logf("%d templates", len(used))
}

// TestJumps: break and continue leave the loop around the bodies of set, filter and else, and drop what these bodies
// wrote, as the code does that Jinja2 generates.
func TestJumps(t *testing.T) {
	const loop, two = "{% for x in [1, 2, 3] %}a", "{% if x == 2 %}"
	for source, want := range map[string]string{
		loop + "{% set y %}b" + two + "{% break %}{% endif %}{% endset %}{{ y }}{% endfor %}":          "aba",
		loop + "{% filter upper %}b" + two + "{% continue %}{% endif %}{% endfilter %}{% endfor %}":    "aBaaB",
		loop + "{% for y in [] %}{% else %}" + two + "{% break %}{% endif %}{% endfor %}z{% endfor %}": "aza",
	} {
		template, err := Parse(source)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := template.Render(nil); err != nil || got != want {
			t.Errorf("%s: got %q, %v, expected %q", source, got, err, want)
		}
	}
}
