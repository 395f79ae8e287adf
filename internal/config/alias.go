package config

import (
	"fmt"
	"strings"
)

// An Alias is an old name of a key.
type Alias struct {
	Old string   // dotted
	New []string // what it is called today; several get the same value
	// Value makes today's value from the old one, which stands for %s: "${not:%s}". Empty: it is
	// the same.
	Value string
}

// rename moves what stands under old names in source to today's, and notes it. Where both are given
// the new name keeps its value.
func (t *Tree) rename(source *node) {
	for _, a := range t.options.Aliases {
		old := source.take(a.Old)
		if old == nil {
			continue
		}
		note := fmt.Sprintf("%s: %s is an old name, today it is %s", old.origin, a.Old, strings.Join(a.New, " and "))
		var given []string
		for _, name := range a.New {
			if source.find(name) != nil {
				given = append(given, name)
				continue
			}
			v := old.clone()
			if a.Value != "" && v.kind == scalar {
				v = plain(fmt.Sprintf(a.Value, v.value), v.origin)
			}
			source.merge(nest(name, v))
		}
		if len(given) > 0 {
			note += "; " + strings.Join(given, " and ") + " is given too, and counts"
		}
		t.notes = append(t.notes, note)
	}
}

// today returns the present name of a dotted key that is, or lies below, an old one.
func (t *Tree) today(key string) string {
	for _, a := range t.options.Aliases {
		if rest, ok := strings.CutPrefix(key, a.Old); ok && (rest == "" || rest[0] == '.') && a.Value == "" {
			return a.New[0] + rest
		}
	}
	return key
}
