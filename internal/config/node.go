package config

import (
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// A node is one value of a configuration and where it was written.
type node struct {
	origin string
	kind   kind
	tag    string   // scalar: !!str, !!int, !!float, !!bool or !!null
	value  string   // scalar: as written
	wrong  error    // scalar: why its interpolation cannot be replaced
	quote  string   // scalar: the quotes around it, "" for none
	keys   []string // dict: the name of each item
	items  []*node  // dict and list

	decimal bool // scalar: of the command line or the environment, where a leading zero means nothing
}

type kind uint8

const (
	scalar kind = iota
	list
	dict
)

const (
	strTag   = "!!str"
	intTag   = "!!int"
	floatTag = "!!float"
	boolTag  = "!!bool"
	nullTag  = "!!null"
)

// plain makes a scalar from unquoted text, of the type that YAML gives it.
func plain(text, origin string) *node {
	return &node{origin: origin, tag: scalarTag((&yaml.Node{Kind: yaml.ScalarNode, Value: text}).ShortTag()),
		value: text}
}

// scalarTag reduces the tag of a scalar to those that a configuration has: a date, say, is text.
func scalarTag(tag string) string {
	switch tag {
	case intTag, floatTag, boolTag, nullTag:
		return tag
	}
	return strTag
}

// text returns the scalar n as written, except for true and false, which have one spelling: True and
// TRUE are true.
func (n *node) text() string {
	if n.tag == boolTag {
		return strings.ToLower(n.value)
	}
	return n.value
}

func (n *node) isNull() bool { return n.kind == scalar && n.tag == nullTag }

// what names the type of n for an error.
func (n *node) what() string {
	switch {
	case n.kind == dict:
		return "a map"
	case n.kind == list:
		return "a list"
	case n.isNull():
		return "null"
	case n.tag == strTag:
		return show(n.value)
	}
	return n.value
}

// name returns the name of an item: its key in a dict, its index in a list.
func (n *node) name(i int) string {
	if n.kind == dict {
		return n.keys[i]
	}
	return strconv.Itoa(i)
}

// child returns the item under key: a name in a dict, an index in a list. nil when there is none.
func (n *node) child(key string) *node {
	if n == nil {
		return nil
	}
	switch n.kind {
	case dict:
		if i := slices.Index(n.keys, key); i >= 0 {
			return n.items[i]
		}
	case list:
		if i, err := strconv.Atoi(key); err == nil && i >= 0 && i < len(n.items) {
			return n.items[i]
		}
	}
	return nil
}

// find returns the node at a dotted key, nil when there is none. A nil node has none.
func (n *node) find(key string) *node {
	if key == "" || n == nil {
		return n
	}
	for name := range strings.SplitSeq(key, ".") {
		if n = n.child(name); n == nil {
			return nil
		}
	}
	return n
}

// set puts v under key in a dict, in place of what stood there.
func (n *node) set(key string, v *node) {
	if i := slices.Index(n.keys, key); i >= 0 {
		n.items[i] = v
		return
	}
	n.keys, n.items = append(n.keys, key), append(n.items, v)
}

// remove takes key out of a dict and returns what stood there, nil for nothing.
func (n *node) remove(key string) *node {
	i := slices.Index(n.keys, key)
	if n.kind != dict || i < 0 {
		return nil
	}
	v := n.items[i]
	n.keys, n.items = slices.Delete(n.keys, i, i+1), slices.Delete(n.items, i, i+1)
	return v
}

// take removes the node at a dotted key and returns it, nil for nothing; a dict that it leaves
// empty goes too.
func (n *node) take(key string) *node {
	first, rest, deeper := strings.Cut(key, ".")
	if !deeper {
		return n.remove(first)
	}
	below := n.child(first)
	if below == nil {
		return nil
	}
	v := below.take(rest)
	if v != nil && below.kind == dict && len(below.items) == 0 {
		n.remove(first)
	}
	return v
}

// nest wraps v in dicts so that it stands at a dotted key.
func nest(key string, v *node) *node {
	if key == "" {
		return v
	}
	first, rest, _ := strings.Cut(key, ".")
	return &node{origin: v.origin, kind: dict, keys: []string{first}, items: []*node{nest(rest, v)}}
}

// merge lays src over n: dicts item by item, a dict over a list where its keys are indices of the
// list, anything else replaces what was there. A null leaves a dict as it is, since a section whose
// keys are all commented out reads as null. n is changed, and the result may share nodes with both.
func (n *node) merge(src *node) *node {
	switch {
	case n == nil:
		return src
	case n.kind == dict && src.isNull():
		return n
	case n.kind == list && src.kind == dict && !slices.ContainsFunc(src.keys, func(key string) bool {
		return n.child(key) == nil
	}):
		for i, key := range src.keys {
			item := n.child(key)
			*item = *item.merge(src.items[i])
		}
		return n
	case n.kind != dict || src.kind != dict:
		return src
	}
	if src.origin != commandLine { // the section of the file on top is where a key that is missing should be looked for
		n.origin = src.origin
	}
	for i, key := range src.keys {
		n.set(key, n.child(key).merge(src.items[i]))
	}
	return n
}

// clone copies n with everything below it.
func (n *node) clone() *node {
	c := *n
	c.keys = slices.Clone(n.keys)
	c.items = make([]*node, len(n.items))
	for i, item := range n.items {
		c.items[i] = item.clone()
	}
	return &c
}

// size counts n and all below it.
func (n *node) size() int {
	size := 1
	for _, item := range n.items {
		size += item.size()
	}
	return size
}

// yaml returns n as the YAML library has it.
func (n *node) yaml() *yaml.Node {
	if n.kind == scalar {
		y := &yaml.Node{Kind: yaml.ScalarNode, Tag: n.tag, Value: n.value}
		if n.tag == strTag {
			y.Style = yaml.DoubleQuotedStyle
		}
		return y
	}
	y := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	if n.kind == dict {
		y = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	}
	for i, item := range n.items {
		if n.kind == dict {
			y.Content = append(y.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: strTag, Value: n.keys[i],
				Style: yaml.DoubleQuotedStyle})
		}
		y.Content = append(y.Content, item.yaml())
	}
	return y
}
