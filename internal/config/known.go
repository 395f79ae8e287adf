package config

import (
	"cmp"
	"slices"
	"strings"
)

// Known is a key of another program whose configurations are read here, but which means nothing
// here.
type Known struct {
	Key string // dotted; * stands for any one name, a final ** for everything from there on
	// Idle are values that ask for nothing beside those that never do: null, None, false, 0, "" and
	// empty lists and maps. They are as written, but true for True.
	Idle []string
	// Instead says what happens in place of what the key asks for, where that changes what is
	// learnt. "": it changes no more than speed, memory, or what is written.
	Instead string
	// Reason says why it has no effect, where it changes nothing that is learnt.
	Reason string
	// Switch names a key below a Key that ends in **: where it is absent or idle, all of it is.
	Switch string
}

// Covers reports whether k stands for the dotted key.
func (k Known) Covers(key string) bool { return matches(k.Key, key) == whole }

// Siblings are what a key that no field has a name for might have been meant as.
type siblings struct {
	names []string // of the fields beside it
	all   []string // of every field
	own   []string // sections that have keys of a user's own part
}

// owner returns the owner of key by Options.Owner.
func (c *Check) owner(key string) (string, bool) {
	if c.tree.options.Owner == nil {
		return "", false
	}
	return c.tree.options.Owner(key)
}

// classify reports a key, counted from the root, that no field has a name for. A known key that
// asks for nothing is not reported, and a known key that asks for something is a line in the common
// warning. An unknown key, or another part's, is an error.
func (c *Check) classify(n *node, key string, beside siblings) {
	var above bool // key holds known keys
	owner, owned := c.owner(key)
	name := key[strings.LastIndexByte(key, '.')+1:]
	for _, k := range c.tree.options.Known {
		match := matches(k.Key, key)
		if section, any := strings.CutSuffix(k.Key, ".**"); any && (slices.Contains(beside.own, section) ||
			owned && join(section, name) == key) {
			match = none // it stands for keys of which nothing is known
		}
		switch match {
		case whole:
			if s := n.child(k.Switch); k.Switch == "" || s != nil && !k.asksNothing(s) {
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
	if near := beside.meant(n, key); near != "" {
		want += ", did you mean " + near + "?"
	}
	c.report(&FieldError{Origin: n.origin, Key: key, Want: want})
}

// meant returns the key that was most likely meant by the one at which n stands; "" for none.
func (s siblings) meant(n *node, key string) string {
	name := key[strings.LastIndexByte(key, '.')+1:]
	near := Nearest(name, s.names)
	if name != key {
		return cmp.Or(near, endingIn(name, s.all))
	}
	for n.kind == dict && len(n.keys) == 1 { // at the root the sections before a key may be missing
		key, n = join(key, n.keys[0]), n.items[0]
	}
	full := Likeliest(key, s.all)
	last := full[strings.LastIndexByte(full, '.')+1:]
	if near == "" || full != "" && distance(name, last) < distance(name, near) {
		return full
	}
	return near
}

// judge notes the values at and below key that ask for something.
func (c *Check) judge(n *node, key string, k Known) {
	if slices.ContainsFunc(c.tree.said, func(s string) bool { return key == s || strings.HasPrefix(key, s+".") }) {
		return
	}
	for _, other := range c.tree.options.Known { // below a key that stands for all below it
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
	if n.kind != scalar || k.asksNothing(n) {
		return
	}
	c.ignore(Ignored{Key: key, Value: n.what(), Instead: k.Instead, Reason: k.Reason})
}

// judgeList notes a list of scalars as one value, if any of them asks for something.
func (c *Check) judgeList(n *node, key string, k Known) {
	var items []string
	asks := false
	for _, item := range n.items {
		items = append(items, item.what())
		asks = asks || !k.asksNothing(item)
	}
	if asks {
		c.ignore(Ignored{Key: key, Value: "[" + strings.Join(items, ", ") + "]", Instead: k.Instead,
			Reason: k.Reason})
	}
}

// asksNothing tells whether the scalar n is a value that does.
func (k Known) asksNothing(n *node) bool {
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

// pythonNone is how Python writes null, which recipes sometimes do in YAML too, where it is text.
const pythonNone = "None"

type match uint8

const (
	none   match = iota
	prefix       // the pattern goes on below the key
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
