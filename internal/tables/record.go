package tables

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// EachRecord calls handle for each row as a JSON object. The record is valid until handle returns. A column without a
// value is null. Within structs, parts without a value are left out, because a struct has no other way to lack a key.
// Bytes that are no text are {"bytes": N}, with their number. Dates and times are the numbers in the file.
func (t *Table) EachRecord(handle func(row int, record []byte) error) error {
	leaves := make([]int, len(t.file.Schema().Columns()))
	for i := range leaves {
		leaves[i] = i
	}
	var b []byte
	return t.scan(leaves, func(row int, values [][]parquet.Value) (err error) {
		b = append(b[:0], '{')
		for i, n := range t.root {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendText(b, n.key), ':')
			if b, err = n.append(b, values[n.first:n.end]); err != nil {
				return err
			}
		}
		return handle(row, append(b, '}'))
	})
}

// append appends the node as JSON. values has the values of its leaves.
func (n *node) append(b []byte, values [][]parquet.Value) ([]byte, error) {
	if n.repeated { // a list without the outer group
		return n.appendItems(b, '[', ']', values, n.appendValue)
	}
	if n.optional && n.isNull(values) {
		return append(b, "null"...), nil
	}
	return n.appendValue(b, values)
}

func (n *node) isNull(values [][]parquet.Value) bool { return values[0][0].DefinitionLevel() < n.def }

// appendValue appends a value that is there. values has the values of its leaves.
func (n *node) appendValue(b []byte, values [][]parquet.Value) (_ []byte, err error) {
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
		return entry.appendItems(b, '{', '}', values, func(b []byte, values [][]parquet.Value) ([]byte, error) {
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
		if child.optional && child.isNull(of) {
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
func (n *node) appendItems(b []byte, open, end byte, values [][]parquet.Value,
	appendItem func([]byte, [][]parquet.Value) ([]byte, error)) (_ []byte, err error) {
	b = append(b, open)
	if n.isNull(values) { // the list is empty
		return append(b, end), nil
	}
	rest := append([][]parquet.Value(nil), values...)
	item := make([][]parquet.Value, len(rest))
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
		switch {
		case isText(n.leaf, v):
			if at := invalidAt(v.ByteArray()); at >= 0 {
				return nil, fmt.Errorf("column %s: byte %d is 0x%02x: expected UTF-8", n.name, at+1, v.ByteArray()[at])
			}
			return appendText(b, string(v.ByteArray())), nil
		case isJSON(n.leaf) && json.Valid(v.ByteArray()):
			return append(b, v.ByteArray()...), nil
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

func isJSON(leaf parquet.Node) bool {
	is := leaf.Type().LogicalType()
	if is == nil {
		return false
	}
	_, ok := is.Value.(*format.JsonType)
	return ok
}

// invalidAt returns the first byte that is not UTF-8, or -1.
func invalidAt(text []byte) int {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return -1
}

func appendText(b []byte, text string) []byte {
	quoted, _ := json.Marshal(text) // a string is always valid
	return append(b, quoted...)
}
