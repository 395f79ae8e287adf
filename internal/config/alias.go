package config

import (
	"fmt"
	"strings"
)

// An Alias maps an old name of a key to its current names.
type Alias struct {
	Old string   // dotted
	New []string // current names, dotted; all get the same value
	// Value is a template for the new value, such as "${not:%s}". %s stands for the old value. If the template is
	// empty, the value does not change.
	Value string
}

// rename moves values in source from old names to current names, and records a warning for each old name. A current
// name that source already has keeps its value.
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

// currentName replaces an old name at the start of a dotted key by its current name. It returns any other key
// unchanged.
func (t *Tree) currentName(key string) string {
	for _, a := range t.options.Aliases {
		if rest, ok := strings.CutPrefix(key, a.Old); ok && (rest == "" || rest[0] == '.') && a.Value == "" {
			return a.New[0] + rest
		}
	}
	return key
}
