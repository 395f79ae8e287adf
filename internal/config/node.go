package config

import (
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// A node is a value of a configuration with its origin.
type node struct {
	origin string
	kind   kind
	tag    string   // scalar: !!str, !!int, !!float, !!bool or !!null
	value  string   // scalar: as written
	wrong  error    // scalar: error of its interpolation
	quote  string   // scalar: the quotes around it; "" if there are none
	keys   []string // dict: names of the items
	items  []*node  // items of a dict or list

	decimal bool // scalar: from the command line or the environment; a leading zero does not mean octal
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

// plain makes a scalar from unquoted text, with the type that YAML gives it.
func plain(text, origin string) *node {
	return &node{origin: origin, tag: scalarTag((&yaml.Node{Kind: yaml.ScalarNode, Value: text}).ShortTag()),
		value: text}
}

// scalarTag maps any tag of a scalar to one of the five tags above. A date, for example, becomes text.
func scalarTag(tag string) string {
	switch tag {
	case intTag, floatTag, boolTag, nullTag:
		return tag
	}
	return strTag
}

// text returns the scalar as written, but true and false in lower case.
func (n *node) text() string {
	if n.tag == boolTag {
		return strings.ToLower(n.value)
	}
	return n.value
}

func (n *node) isNull() bool { return n.kind == scalar && n.tag == nullTag }

// describe describes the value for an error message.
func (n *node) describe() string {
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

// name returns the name of item i: its key in a dict, its index in a list.
func (n *node) name(i int) string {
	if n.kind == dict {
		return n.keys[i]
	}
	return strconv.Itoa(i)
}

// child returns the item with a name (dict) or an index (list), or nil.
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

// find returns the node at a dotted key, or nil. n may be nil.
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

// set sets key in a dict to v.
func (n *node) set(key string, v *node) {
	if i := slices.Index(n.keys, key); i >= 0 {
		n.items[i] = v
		return
	}
	n.keys, n.items = append(n.keys, key), append(n.items, v)
}

// remove removes key from a dict and returns its value, or nil.
func (n *node) remove(key string) *node {
	i := slices.Index(n.keys, key)
	if n.kind != dict || i < 0 {
		return nil
	}
	v := n.items[i]
	n.keys, n.items = slices.Delete(n.keys, i, i+1), slices.Delete(n.items, i, i+1)
	return v
}

// take removes the node at a dotted key and returns it, or nil. It also removes dicts that become empty.
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

// nest wraps v in dicts, so that it is at a dotted key.
func nest(key string, v *node) *node {
	if key == "" {
		return v
	}
	first, rest, _ := strings.Cut(key, ".")
	return &node{origin: v.origin, kind: dict, keys: []string{first}, items: []*node{nest(rest, v)}}
}

// merge merges src into n and returns the result. It merges a dict into a dict item by item, and into a list if the
// keys of src are indices of the list. In all other cases src replaces n. A null does not change a dict, because a
// section whose keys are all commented out reads as null. merge changes n, and the result may share nodes with n and
// src.
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
	if src.origin != commandLine { // errors about missing keys name the last file
		n.origin = src.origin
	}
	for i, key := range src.keys {
		n.set(key, n.child(key).merge(src.items[i]))
	}
	return n
}

// clone copies n and all nodes below it.
func (n *node) clone() *node {
	c := *n
	c.keys = slices.Clone(n.keys)
	c.items = make([]*node, len(n.items))
	for i, item := range n.items {
		c.items[i] = item.clone()
	}
	return &c
}

// size returns the number of nodes in n.
func (n *node) size() int {
	size := 1
	for _, item := range n.items {
		size += item.size()
	}
	return size
}

// yaml converts n to a node of the YAML library.
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
