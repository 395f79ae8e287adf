package tensor

import "fmt"

// A Field is one tensor of a Layout.
type Field struct {
	Name  string
	DType DType
	Shape []int
}

// Bytes returns the size of the tensor in bytes.
func (f Field) Bytes() int { return count(f.Shape) * f.DType.Size() }

// A Layout places named tensors in one block of memory. Each tensor is aligned to Align bytes. A Layout is immutable.
type Layout struct {
	fields []Field
	offs   []int
	size   int
}

// NewLayout places fields in the given order. It panics if a name occurs twice.
func NewLayout(fields ...Field) *Layout {
	l := &Layout{fields: fields}
	seen := make(map[string]bool, len(fields))
	for _, f := range fields {
		if seen[f.Name] {
			panic(fmt.Sprintf("tensor: layout with two %q", f.Name))
		}
		seen[f.Name] = true
		l.offs = append(l.offs, l.size)
		l.size += aligned(f.Bytes())
	}
	return l
}

// Fields returns the fields in order; the caller must not change them.
func (l *Layout) Fields() []Field { return l.fields }

// Offset returns the position of field i in bytes.
func (l *Layout) Offset(i int) int { return l.offs[i] }

// Size returns the number of bytes that Bind needs, a multiple of Align.
func (l *Layout) Size() int { return l.size }

// Bind returns the fields as views of mem. mem must have at least Size bytes, and must be aligned to Align bytes.
func (l *Layout) Bind(mem []byte) Dict {
	d := Dict{names: make([]string, 0, len(l.fields)), tensors: make([]Tensor, 0, len(l.fields))}
	for i, f := range l.fields {
		n := f.Bytes()
		d.names = append(d.names, f.Name)
		d.tensors = append(d.tensors, Of(mem[l.offs[i]:l.offs[i]+n:l.offs[i]+n], f.DType, f.Shape...))
	}
	return d
}

func aligned(n int) int { return (n + Align - 1) &^ (Align - 1) }
