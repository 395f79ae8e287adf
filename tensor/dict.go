package tensor

import (
	"fmt"
	"slices"
	"strings"
)

// A Dict is an ordered set of named tensors. Dotted names express nesting: Sub("observation") has the tensors of
// observation.* without the prefix. The zero Dict is empty and ready to use. Only the maker of a Dict may call Set,
// because copies of a Dict share its entries.
type Dict struct {
	names   []string
	tensors []Tensor
}

// Set adds t under name, or replaces the tensor of that name.
func (d *Dict) Set(name string, t Tensor) {
	if i := d.index(name); i >= 0 {
		d.tensors[i] = t
		return
	}
	d.names = append(d.names, name)
	d.tensors = append(d.tensors, t)
}

// Get returns the tensor under name, or the zero Tensor and false if there is none.
func (d Dict) Get(name string) (Tensor, bool) {
	if i := d.index(name); i >= 0 {
		return d.tensors[i], true
	}
	return Tensor{}, false
}

// Must returns the tensor under name. It panics if there is none.
func (d Dict) Must(name string) Tensor {
	i := d.index(name)
	if i < 0 {
		d.refuse(name)
	}
	return d.tensors[i]
}

// refuse panics. It is a separate function so that Must can be inlined.
//
//go:noinline
func (d Dict) refuse(name string) { panic(fmt.Sprintf("tensor: no %q among %v", name, d.names)) }

// Len returns the number of tensors.
func (d Dict) Len() int { return len(d.names) }

// Entry returns the name and the tensor of entry i. Entries are in the order in which they were set.
func (d Dict) Entry(i int) (string, Tensor) { return d.names[i], d.tensors[i] }

// Sub returns the tensors whose names begin with prefix and a dot, and removes this beginning from their names.
func (d Dict) Sub(prefix string) Dict {
	var s Dict
	for i, name := range d.names {
		if rest, ok := strings.CutPrefix(name, prefix); ok && strings.HasPrefix(rest, ".") {
			s.Set(rest[1:], d.tensors[i])
		}
	}
	return s
}

// Slice returns a Dict with the view [lo:hi] of each tensor, along the first dimension.
func (d Dict) Slice(lo, hi int) Dict {
	var s Dict
	for i, name := range d.names {
		s.Set(name, d.tensors[i].Slice(lo, hi))
	}
	return s
}

// CopyFrom copies the elements of each tensor of d from the tensor of the same name in src.
func (d Dict) CopyFrom(src Dict) {
	for i, name := range d.names {
		d.tensors[i].CopyFrom(src.Must(name))
	}
}

// Clone returns a Dict with copies of the tensors.
func (d Dict) Clone() (c Dict) {
	for i, name := range d.names {
		c.Set(name, d.tensors[i].Clone())
	}
	return c
}

// String lists names, types and shapes.
func (d Dict) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, name := range d.names {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%s: %v", name, d.tensors[i])
	}
	b.WriteByte('}')
	return b.String()
}

func (d Dict) index(name string) int { return slices.Index(d.names, name) }
