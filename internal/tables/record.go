package tables

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// A node is a column of a table, or a part of a column that has structs, lists or maps.
type node struct {
	name               string // with the names of the nodes above, as in "image.bytes"
	key                string // last part of name
	kind               kind
	optional, repeated bool
	def, rep           int // definition level of a value that is there, repetition level of its items
	first, end         int // leaves of the file that belong to the node
	leaf               parquet.Node
	children           []*node
}

// kind says how the children of a node are shown.
type kind int

const (
	isLeaf kind = iota
	isStruct
	isList // has one child, which is repeated
	isMap  // has one child, which is repeated and has a key and a value
)

// EachRecord calls handle for each row as a JSON object, with the columns whose names want accepts. The record is valid
// until handle returns. A column without a value is null. Within structs, parts without a value are left out, because a
// struct has no other way to lack a key. Bytes that are no text are {"bytes": N}, with their number. Dates and times
// are the numbers in the file.
func (t *Table) EachRecord(want func(column string) bool, handle func(row int, record []byte) error) error {
	root, leaves := &node{kind: isStruct}, []int(nil)
	for _, n := range nodesOf(t.file.Schema(), root, new(int)) {
		if !want(n.key) {
			continue
		}
		root.children = append(root.children, n)
		for leaf := range n.end - n.first {
			leaves = append(leaves, n.first+leaf)
		}
		n.first, n.end = len(leaves)-(n.end-n.first), len(leaves)
	}
	var b []byte
	return t.scan(leaves, func(row int, values []parquet.Row) error {
		err := whole(func() (err error) {
			b, err = root.appendValue(b[:0], values)
			return err
		})
		if err != nil {
			return err
		}
		return handle(row, b)
	})
}

// nodesOf returns the children of a node. leaves is the number of leaves before them.
func nodesOf(of parquet.Node, above *node, leaves *int) (nodes []*node) {
	for _, f := range of.Fields() {
		n := &node{key: f.Name(), name: f.Name(), optional: f.Optional(), repeated: f.Repeated(), def: above.def,
			rep: above.rep, first: *leaves}
		if above.name != "" {
			n.name = above.name + "." + n.key
		}
		if n.optional || n.repeated {
			n.def++
		}
		if n.repeated {
			n.rep++
		}
		if f.Leaf() {
			n.leaf = f
			*leaves++
		} else {
			n.kind = kindOf(f)
			n.children = nodesOf(f, n, leaves)
		}
		n.end = *leaves
		nodes = append(nodes, n)
	}
	return nodes
}

func kindOf(f parquet.Node) kind {
	is := f.Type().LogicalType()
	children := f.Fields()
	if is == nil || len(children) != 1 || !children[0].Repeated() {
		return isStruct
	}
	switch is.Value.(type) {
	case *format.ListType:
		return isList
	case *format.MapType:
		if !children[0].Leaf() && len(children[0].Fields()) == 2 {
			return isMap
		}
	}
	return isStruct
}

// append appends the node as JSON. values has the values of its leaves.
func (n *node) append(b []byte, values []parquet.Row) ([]byte, error) {
	if n.repeated { // a list without the outer group
		return n.appendItems(b, '[', ']', values, n.appendValue)
	}
	if n.optional && n.isNull(values) {
		return append(b, "null"...), nil
	}
	return n.appendValue(b, values)
}

func (n *node) isNull(values []parquet.Row) bool { return values[0][0].DefinitionLevel() < n.def }

// appendValue appends a value that is there. values has the values of its leaves.
func (n *node) appendValue(b []byte, values []parquet.Row) (_ []byte, err error) {
	switch n.kind {
	case isLeaf:
		return n.appendLeaf(b, values[0][0])
	case isList:
		item := n.children[0]
		element := item.appendValue
		if item.kind == isStruct && len(item.children) == 1 && item.key != "array" && item.key != n.key+"_tuple" {
			element = item.children[0].append // the format's rules for lists
		}
		return item.appendItems(b, '[', ']', values, element)
	case isMap:
		entry := n.children[0]
		key, value := entry.children[0], entry.children[1]
		return entry.appendItems(b, '{', '}', values, func(b []byte, values []parquet.Row) ([]byte, error) {
			of := values[:key.end-key.first]
			if key.kind != isLeaf || key.isNull(of) || !isText(key.leaf, of[0][0]) {
				return nil, fmt.Errorf("column %s: expected texts as the keys of a map", key.name)
			}
			b = append(appendText(b, string(of[0][0].ByteArray())), ':')
			return value.append(b, values[key.end-key.first:])
		})
	}
	b = append(b, '{')
	some := false
	for _, child := range n.children {
		of := values[child.first-n.first : child.end-n.first]
		if n.name != "" && child.optional && child.isNull(of) {
			continue
		}
		if some {
			b = append(b, ',')
		}
		some = true
		b = append(appendText(b, child.key), ':')
		if b, err = child.append(b, of); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// appendItems appends the items of n, which is repeated, between open and end.
func (n *node) appendItems(b []byte, open, end byte, values []parquet.Row,
	appendItem func([]byte, []parquet.Row) ([]byte, error)) (_ []byte, err error) {
	b = append(b, open)
	if n.isNull(values) { // the list is empty
		return append(b, end), nil
	}
	rest := append([]parquet.Row(nil), values...)
	item := make([]parquet.Row, len(rest))
	for first := true; len(rest[0]) > 0; first = false {
		if !first {
			b = append(b, ',')
		}
		for i, v := range rest {
			to := 1
			for to < len(v) && v[to].RepetitionLevel() > n.rep {
				to++
			}
			if len(v) == 0 {
				return nil, fmt.Errorf("column %s: its parts differ in length", n.name)
			}
			item[i], rest[i] = v[:to], v[to:]
		}
		if b, err = appendItem(b, item); err != nil {
			return nil, err
		}
	}
	return append(b, end), nil
}

// appendLeaf appends a value that is not null.
func (n *node) appendLeaf(b []byte, v parquet.Value) ([]byte, error) {
	switch v.Kind() {
	case parquet.Boolean:
		return strconv.AppendBool(b, v.Boolean()), nil
	case parquet.Int32, parquet.Int64:
		return strconv.AppendInt(b, v.Int64(), 10), nil
	case parquet.Float, parquet.Double:
		x := v.Double()
		if v.Kind() == parquet.Float {
			x = float64(v.Float())
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("column %s is %v: expected finite numbers", n.name, x)
		}
		return strconv.AppendFloat(b, x, 'g', -1, 64), nil
	case parquet.ByteArray:
		text := v.ByteArray()
		if is := n.leaf.Type().LogicalType(); is != nil {
			if _, ok := is.Value.(*format.JsonType); ok && json.Valid(text) {
				return append(b, text...), nil
			}
		}
		if isText(n.leaf, v) {
			for at, r := range string(text) {
				if r == utf8.RuneError && !bytes.HasPrefix(text[at:], []byte("\uFFFD")) {
					return nil, fmt.Errorf("column %s: byte %d is 0x%02x: expected UTF-8", n.name, at+1, text[at])
				}
			}
			return appendText(b, string(text)), nil
		}
	}
	return fmt.Appendf(b, `{"bytes":%d}`, len(v.Bytes())), nil
}

// isText reports whether a value is a text. Some writers do not mark their texts: then valid UTF-8 is one.
func isText(leaf parquet.Node, v parquet.Value) bool {
	if v.Kind() != parquet.ByteArray {
		return false
	}
	if is := leaf.Type().LogicalType(); is != nil && is.Value != nil {
		switch is.Value.(type) {
		case *format.StringType, *format.EnumType:
			return true
		}
		return false
	}
	return utf8.Valid(v.ByteArray())
}

func appendText(b []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // a string is always valid
	return append(b, quoted...)
}
