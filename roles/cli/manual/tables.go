package manual

import (
	"fmt"
	"slices"
	"strings"

	settings "github.com/rlinf/rlinf/roles/config"
)

// A table is a section of the page about keys.
type table struct {
	section settings.ManualEntry
	rows    []settings.ManualEntry // keys with a row of their own
	shared  []share                // keys that an earlier table explains
	below   []share                // sections below this one that an earlier table explains
	told    bool                   // a table above this one lists it in below
}

// A share lists keys or sections that have the same names and meanings as those in another section.
type share struct {
	with   string   // the other section
	values bool     // the defaults are the values in the other section; else both have the same defaults
	part   string   // the only part with these keys
	names  []string // nil: all keys of the other section that have no row here
}

// tables divides keys into sections. Keys that an earlier section explains have no row.
func tables(keys []settings.ManualEntry) []*table {
	var all []*table
	at := map[string]*table{} // by name of the section
	add := func(section settings.ManualEntry) {
		at[section.Name] = &table{section: section}
		all = append(all, at[section.Name])
	}
	for _, k := range keys {
		if in := parent(k.Name); k.Section {
			add(k)
		} else {
			if at[in] == nil {
				add(settings.ManualEntry{Name: in}) // keys lack the entry of this section
			}
			at[in].rows = append(at[in].rows, k)
		}
	}
	repeats := repeatsOf(keys)
	names := map[string][]string{} // names of the keys by section
	for _, t := range all {
		for _, k := range t.rows {
			names[t.section.Name] = append(names[t.section.Name], last(k.Name))
		}
	}
	for _, t := range all {
		t.divide(repeats, names)
	}
	for _, t := range all {
		t.hide(at)
	}
	return all
}

// repeatsOf returns a function that finds the key that k repeats, if there is one. values is true if the value of that
// key is the default of k.
func repeatsOf(keys []settings.ManualEntry) func(k settings.ManualEntry) (other string, values, ok bool) {
	type meaning struct{ name, kind, doc, part string }
	of := func(k settings.ManualEntry) meaning { return meaning{last(k.Name), k.Type, k.Doc, k.Part} }
	first, known := map[meaning]settings.ManualEntry{}, map[string]meaning{}
	for _, k := range keys {
		known[k.Name] = of(k)
		if _, ok := first[of(k)]; !ok {
			first[of(k)] = k
		}
	}
	return func(k settings.ManualEntry) (string, bool, bool) {
		if k.From != "" {
			return k.From, true, known[k.From] == of(k)
		}
		f := first[of(k)]
		return f.Name, false, f.Name != k.Name && f.From == "" && f.Default == k.Default
	}
}

// divide moves the keys that other sections explain from t.rows to t.shared. names has the names of the keys of each
// section.
func (t *table) divide(repeats func(settings.ManualEntry) (string, bool, bool), names map[string][]string) {
	var rows []settings.ManualEntry
	for _, k := range t.rows {
		other, values, ok := repeats(k)
		if !ok {
			rows = append(rows, k)
			continue
		}
		s := share{with: parent(other), values: values, part: k.Part}
		i := slices.IndexFunc(t.shared, func(x share) bool {
			return x.with == s.with && x.values == s.values && x.part == s.part
		})
		if i < 0 {
			i, t.shared = len(t.shared), append(t.shared, s)
		}
		t.shared[i].names = append(t.shared[i].names, last(k.Name))
	}
	t.rows = rows
	t.shorten(names)
}

// shorten removes the names from the longest share, which then stands for all keys of the other section. It does so
// only if all shares of t name that section, and t has all of its keys.
func (t *table) shorten(names map[string][]string) {
	longest := -1
	for i, s := range t.shared {
		if s.with != t.shared[0].with {
			return
		}
		if longest < 0 || len(s.names) > len(t.shared[longest].names) {
			longest = i
		}
	}
	if longest < 0 || slices.ContainsFunc(names[t.shared[0].with], func(name string) bool {
		return !slices.Contains(names[t.section.Name], name)
	}) {
		return
	}
	all := t.shared[longest]
	all.names, all.part = nil, ""
	t.shared = slices.DeleteFunc(t.shared, func(s share) bool { return s.values == all.values })
	t.shared = append(t.shared, all)
}

// hide lets the table above t mention t, if t has nothing of its own.
func (t *table) hide(at map[string]*table) {
	name := t.section.Name
	above := at[parent(name)]
	if above == nil || len(t.rows) > 0 || len(t.shared) != 1 || t.shared[0].names != nil {
		return
	}
	s := t.shared[0]
	other := at[s.with]
	if last(s.with) != last(name) || other.section.Doc != t.section.Doc || other.section.Type != t.section.Type {
		return
	}
	t.told = true
	if above.told {
		return // the text about the table above includes t
	}
	s.with = parent(s.with)
	i := slices.IndexFunc(above.below, func(x share) bool { return x.with == s.with && x.values == s.values })
	if i < 0 {
		i, above.below = len(above.below), append(above.below, s)
	}
	above.below[i].names = append(above.below[i].names, last(name))
}

// last returns the part of a key behind its section.
func last(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// writeShares writes sentences about the keys that other tables explain.
func (t *table) writeShares(b *strings.Builder) {
	for _, s := range t.shared {
		which, names := "These keys", listed(s.names)
		if s.names == nil {
			which, names = "All keys", "."
			if len(t.rows)+len(t.shared) > 1 {
				which = "All other keys"
			}
		}
		if s.part != "" {
			which += fmt.Sprintf(", only with %s,", s.part)
		}
		verb := "mean the same as in"
		if s.values {
			fmt.Fprintf(b, "\n%s %s `%s`, and their values there are the defaults%s\n", which, verb, s.with, names)
		} else {
			fmt.Fprintf(b, "\n%s %s `%s`, with the same defaults%s\n", which, verb, s.with, names)
		}
	}
	for _, s := range t.below {
		what := "the defaults"
		if s.values {
			what = "their values as defaults"
		}
		fmt.Fprintf(b, "\nSections with the keys of those in `%s`, and with %s: %s.\n", s.with, what, quoted(s.names))
	}
}

// listed returns the end of a sentence that names keys, and more such sentences if there are many.
func listed(names []string) string {
	const most = 20
	first, rest := names[:min(len(names), most)], names[min(len(names), most):]
	text := ": " + quoted(first) + "."
	for more := range slices.Chunk(rest, most) {
		text += " So do " + quoted(more) + "."
	}
	return text
}

// quoted returns names as code, with commas between them.
func quoted(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }
