package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/rlinf/rlinf/internal/printable"
)

// An Ignored is a key that the configuration sets, but that has no effect.
type Ignored struct {
	Key     string // dotted, from the root
	Value   string
	Origin  string
	Instead string // see Known.Instead
	Reason  string // see Known.Reason
}

// Idle adds key to the keys without effect. The value is valid, but has a meaning only in other programs.
func (c *Check) Idle(key string, value any) { c.IdleInstead(key, value, "") }

// IdleInstead is like Idle, for a key that changes training results in other programs. substitute describes what this
// program does in place of the key's effect.
func (c *Check) IdleInstead(key string, value any, substitute string) {
	c.ignore(Ignored{Key: join(c.prefix, key), Value: show(value), Instead: substitute})
}

// ignore adds i to the keys without effect, unless it is one of them already. A part of the tree may be decoded twice.
func (c *Check) ignore(i Ignored) {
	i.Origin = c.tree.origin(i.Key)
	if !slices.Contains(c.found.idle, i) {
		c.found.idle = append(c.found.idle, i)
	}
}

// Ignored returns the keys without effect, sorted by section. Keys that change training results come first.
func (c *Check) Ignored() []Ignored {
	all := slices.Clone(c.found.idle)
	kind := func(i Ignored) int {
		if i.Instead != "" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(all, func(a, b Ignored) int {
		return cmp.Or(kind(a)-kind(b), strings.Compare(a.section(), b.section()))
	})
	return all
}

// section returns the first name of the key.
func (i Ignored) section() string {
	section, _, _ := strings.Cut(i.Key, ".")
	return section
}

// Strict reports an error for each key without effect.
func (c *Check) Strict() {
	for _, i := range c.found.idle {
		c.found.errs = append(c.found.errs, &FieldError{Origin: i.Origin, Key: i.Key, Value: i.Value,
			Want: "known, but without effect here"})
	}
	c.found.idle = nil
}

// Warnings returns warnings for the user: a warning for each old name, and a table of the keys without effect.
func (c *Check) Warnings() []string {
	w := slices.Clone(c.tree.notes)
	if all := c.Ignored(); len(all) > 0 {
		w = append(w, table(all))
	}
	return w
}

// table formats keys without effect in columns. Keys that change training results and other keys have separate
// headings.
func table(all []Ignored) string {
	var out strings.Builder
	out.WriteString("keys without effect here")
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for at, i := range all {
		changes := i.Instead != ""
		if at == 0 || changes != (all[at-1].Instead != "") {
			heading := "these change speed, memory or what is written"
			if changes {
				heading = "THESE CHANGE WHAT IS LEARNT OR MEASURED"
			}
			w.Flush()
			fmt.Fprintf(&out, "\n  %s:", heading)
		}
		fmt.Fprintf(w, "\n    %s\t%s\t%s\t%s", printable.Line(i.Key), short(printable.Line(i.Value)),
			printable.Line(i.Origin), cmp.Or(i.Instead, i.Reason))
	}
	w.Flush()
	lines := strings.Split(out.String(), "\n")
	for n, line := range lines {
		lines[n] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

// short shortens a value to the width of its column.
func short(value string) string {
	if r := []rune(value); len(r) > 32 {
		return string(r[:31]) + "…"
	}
	return value
}
