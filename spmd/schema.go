package spmd

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/rlinf/rlinf/tensor"
)

// A schema is the encoding of a layout, little endian. It begins with the number of fields (uint16).
// Each field then has the length of its name, its dtype and its rank (one byte each), the name, and the
// dimensions (uint32 each).

// appendSchema adds the schema of l to b.
func appendSchema(b []byte, l *tensor.Layout) ([]byte, error) {
	if n := len(l.Fields()); n > math.MaxUint16 {
		return nil, fmt.Errorf("a layout of %d tensors, expected at most %d", n, math.MaxUint16)
	}
	b = binary.LittleEndian.AppendUint16(b, uint16(len(l.Fields())))
	for _, f := range l.Fields() {
		if len(f.Name) > math.MaxUint8 {
			return nil, fmt.Errorf("tensor %.20q…: a name of %d bytes, expected at most %d", f.Name, len(f.Name),
				math.MaxUint8)
		}
		b = append(b, byte(len(f.Name)), byte(f.DType), byte(len(f.Shape)))
		b = append(b, f.Name...)
		for _, d := range f.Shape {
			if d < 0 || d > math.MaxInt32 {
				return nil, fmt.Errorf("tensor %q: dimension %d", f.Name, d)
			}
			b = binary.LittleEndian.AppendUint32(b, uint32(d))
		}
	}
	return b, nil
}

var errSchema = errors.New("not a layout")

// parseSchema is the inverse of appendSchema. It returns an error if b is not a valid schema.
func parseSchema(b []byte) (*tensor.Layout, error) {
	if len(b) < 2 {
		return nil, errSchema
	}
	n := int(binary.LittleEndian.Uint16(b))
	b = b[2:]
	var fields []tensor.Field
	seen := make(map[string]bool)
	total := 0
	for range n {
		if len(b) < 3 {
			return nil, errSchema
		}
		name, dtype, rank := int(b[0]), tensor.DType(b[1]), int(b[2])
		b = b[3:]
		if len(b) < name+4*rank || rank > tensor.MaxRank || dtype < tensor.F32 || dtype > tensor.BF16 {
			return nil, errSchema
		}
		f := tensor.Field{Name: string(b[:name]), DType: dtype, Shape: make([]int, rank)}
		size := dtype.Size()
		for i := range f.Shape {
			f.Shape[i] = int(binary.LittleEndian.Uint32(b[name+4*i:]))
			if f.Shape[i] > math.MaxInt32 || f.Shape[i] > 0 && size > math.MaxInt32/f.Shape[i] {
				return nil, errSchema
			}
			size *= f.Shape[i]
		}
		total += size
		if seen[f.Name] || total > math.MaxInt32 {
			return nil, errSchema
		}
		seen[f.Name] = true
		fields = append(fields, f)
		b = b[name+4*rank:]
	}
	if len(b) > 0 {
		return nil, errSchema
	}
	return tensor.NewLayout(fields...), nil
}
