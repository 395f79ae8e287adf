package config

import (
	"cmp"
	"slices"
	"strings"
)

// Known describes a key that has a meaning only in another program.
type Known struct {
	Key string // dotted; * matches any one name, and ** at the end matches all names below
	// Idle lists further values that disable the feature. null, None, false, 0, "" and empty lists and maps always
	// disable the feature. Values are compared as written, except that True is read as true.
	Idle []string
	// Instead describes what this program does in place of the feature. It is "" if the feature affects only speed,
	// memory or output.
	Instead string
	// Reason is why the key has no effect. It is set if Instead is "".
	Reason string
	// Switch names one of the keys below Key. Key then ends in **. If the named key is absent or disabled, all keys
	// below Key are disabled.
	Switch string
	// Want describes the valid values. If it is set, any value that enables the feature is a mistake.
	Want string
}

// Covers reports whether k matches the dotted key.
func (k Known) Covers(key string) bool { return matches(k.Key, key) == whole }

// siblings are the candidates for the correction of a misspelt key.
type siblings struct {
	names []string // keys of the fields in the same section
	all   []string // keys of all fields
	own   []string // sections with keys of a user's own part
}

// owner returns the result of Options.Owner for key.
func (c *Check) owner(key string) (string, bool) {
	if c.tree.options.Owner == nil {
		return "", false
	}
	return c.tree.options.Owner(key)
}

// classify handles a key without a field; key is dotted, from the root. It accepts a known key whose feature is
// disabled, and adds any other known key to the keys without effect. An unknown key is a mistake. A key of a user's own
// part is a mistake if the configuration does not choose this part.
func (c *Check) classify(n *node, key string, beside siblings) {
	var above bool // key is a section of known keys
	owner, owned := c.owner(key)
	name := key[strings.LastIndexByte(key, '.')+1:]
	for _, k := range c.tree.options.Known {
		match := matches(k.Key, key)
		if section, any := strings.CutSuffix(k.Key, ".**"); any && (slices.Contains(beside.own, section) ||
			owned && join(section, name) == key) {
			match = none // here ** does not cover the keys of the user's own part
		}
		switch match {
		case whole:
			if s := n.child(k.Switch); k.Switch == "" || s != nil && !k.isDisabled(s) {
				c.judge(n, key, k)
			}
			return
		case prefix:
			above = true
		}
	}
	if above && (n.kind == dict || n.isNull()) {
		for i, name := range n.keys {
			c.classify(n.items[i], join(key, name), siblings{all: beside.all, own: beside.own})
		}
		return
	}
	if owned {
		if owner != "" {
			c.report(&FieldError{Origin: n.origin, Key: key, Want: "a key of " + owner + ", which is not chosen"})
		}
		return
	}
	want := "unknown key"
	if near := beside.correction(n, key, c.tree.options.Synonyms); near != "" {
		want += ", did you mean " + near + "?"
	}
	c.report(&FieldError{Origin: n.origin, Key: key, Want: want})
}

// correction returns the most likely correction of the misspelt key of n, or "". synonyms are Options.Synonyms.
func (s siblings) correction(n *node, key string, synonyms map[string]string) string {
	name := key[strings.LastIndexByte(key, '.')+1:]
	if own := synonyms[name]; slices.Contains(s.all, own) {
		if section, last := key[:len(key)-len(name)], own[strings.LastIndexByte(own, '.')+1:]; section+last == own {
			return last
		}
		return own
	}
	near := Nearest(name, s.names)
	if near == "" { // num_envs for total_num_envs
		if i := slices.IndexFunc(s.names, func(own string) bool { return strings.HasSuffix(own, "_"+name) }); i >= 0 {
			near = s.names[i]
		}
	}
	if name != key {
		return cmp.Or(near, endingIn(name, key, s.all))
	}
	for n.kind == dict && len(n.keys) == 1 { // at the root, sections before the key may be missing
		key, n = join(key, n.keys[0]), n.items[0]
	}
	full := Likeliest(key, s.all)
	last := full[strings.LastIndexByte(full, '.')+1:]
	if near == "" || full != "" && distance(name, last) < distance(name, near) {
		return full
	}
	return near
}

// judge adds key, or the keys below it, to the keys without effect. It leaves out values that disable the feature of k.
func (c *Check) judge(n *node, key string, k Known) {
	if slices.ContainsFunc(c.tree.repeated, func(s string) bool { return key == s || strings.HasPrefix(key, s+".") }) {
		return
	}
	for _, other := range c.tree.options.Known { // a longer pattern is more specific
		if len(other.Key) > len(k.Key) && other.Covers(key) && n.kind == scalar {
			k = other
		}
	}
	if n.kind == list && !slices.ContainsFunc(n.items, func(item *node) bool { return item.kind != scalar }) {
		c.judgeList(n, key, k)
		return
	}
	for i, item := range n.items {
		c.judge(item, join(key, n.name(i)), k)
	}
	if n.kind != scalar || k.isDisabled(n) {
		return
	}
	if k.Want != "" {
		c.report(&FieldError{Origin: n.origin, Key: key, Value: n.describe(), Want: "expected " + k.Want})
		return
	}
	c.ignore(Ignored{Key: key, Value: n.describe(), Instead: k.Instead, Reason: k.Reason})
}

// judgeList adds key to the keys without effect. The value of key is a list of scalars. If every scalar disables the
// feature of k, judgeList adds nothing.
func (c *Check) judgeList(n *node, key string, k Known) {
	var items []string
	asks := false
	for _, item := range n.items {
		items = append(items, item.describe())
		asks = asks || !k.isDisabled(item)
	}
	if asks {
		c.ignore(Ignored{Key: key, Value: "[" + strings.Join(items, ", ") + "]", Instead: k.Instead,
			Reason: k.Reason})
	}
}

// isDisabled reports whether n turns the feature off (false, null, …).
func (k Known) isDisabled(n *node) bool {
	switch n.tag {
	case nullTag:
		return true
	case boolTag:
		if b, _ := parseBool(n.value); !b {
			return true
		}
	case intTag, floatTag:
		if x, err := parseFloat(n.value); err == nil && x == 0 {
			return true
		}
	}
	return n.value == "" || n.value == pythonNone || slices.Contains(k.Idle, n.text())
}

// pythonNone is Python's null. Some recipes use it in YAML, where it is a text.
const pythonNone = "None"

type match uint8

const (
	none   match = iota
	prefix       // the pattern matches keys below the key
	whole
)

func matches(pattern, key string) match {
	names := strings.Split(key, ".")
	for i, p := range strings.Split(pattern, ".") {
		switch {
		case p == "**":
			return whole
		case i == len(names):
			return prefix
		case p != "*" && p != names[i]:
			return none
		}
		if i == len(names)-1 && i == strings.Count(pattern, ".") {
			return whole
		}
	}
	return none
}
