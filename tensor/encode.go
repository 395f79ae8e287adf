package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The encoded form of a Dict. Numbers are little-endian:
//
//	"RLD1"  count u32
//	count × { dtype u8, rank u8, length of the name u16, name, rank × dimension u64 }
//	the elements of each tensor in turn
const encodedMagic = "RLD1"

// Encode appends d to dst, with names, types and shapes, and returns the result. Decode is the inverse. Encode panics
// if a name has 64 KiB or more.
func Encode(dst []byte, d Dict) []byte {
	dst = append(dst, encodedMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(d.names)))
	for i, name := range d.names {
		t := d.tensors[i]
		if len(name) > math.MaxUint16 || t.IsZero() {
			panic(fmt.Sprintf("tensor: encode %.40q: %v", name, t))
		}
		dst = append(dst, byte(t.DType()), byte(t.Rank()))
		dst = binary.LittleEndian.AppendUint16(dst, uint16(len(name)))
		dst = append(dst, name...)
		for _, n := range t.Shape() {
			dst = binary.LittleEndian.AppendUint64(dst, uint64(n))
		}
	}
	for _, t := range d.tensors {
		dst = append(dst, t.Bytes()...)
	}
	return dst
}

// Decode returns the Dict that Encode wrote to b. The Dict does not share the memory of b. b may come from an untrusted
// source: Decode returns an error if b is damaged or cut off, or has bytes after the last tensor.
func Decode(b []byte) (Dict, error) {
	d, err := decode(b)
	if err != nil {
		return Dict{}, fmt.Errorf("decode tensors from %d bytes: %w", len(b), err)
	}
	return d, nil
}

func decode(b []byte) (Dict, error) {
	r := reader{b: b}
	if magic := r.take(len(encodedMagic)); string(magic) != encodedMagic {
		return Dict{}, fmt.Errorf("starts with %q, expected %q", magic, encodedMagic)
	}
	var fields []Field
	seen := make(map[string]bool)
	left := len(b) // the elements must fit into these bytes
	for range r.number(4) {
		dtype, rank := DType(r.number(1)), int(r.number(1))
		name := string(r.take(int(r.number(2))))
		shape := make([]int, 0, MaxRank)
		if rank > MaxRank {
			return Dict{}, fmt.Errorf("tensor %q: %d dimensions, at most %d", name, rank, MaxRank)
		}
		for range rank {
			shape = append(shape, int(r.number(8)))
		}
		if r.short {
			break
		}
		if !dtype.valid() {
			return Dict{}, fmt.Errorf("tensor %q: no such dtype %d", name, uint8(dtype))
		}
		if seen[name] {
			return Dict{}, fmt.Errorf("tensor %q: occurs twice", name)
		}
		size, ok := sizeOf(dtype, shape)
		if !ok || size > left {
			return Dict{}, fmt.Errorf("tensor %q: %v%v is larger than the data", name, dtype, shape)
		}
		left -= size
		seen[name] = true
		fields = append(fields, Field{name, dtype, shape})
	}
	if r.short {
		return Dict{}, fmt.Errorf("cut off in the header")
	}
	d := newDict(fields)
	for i, t := range d.tensors {
		dst := t.Bytes()
		src := r.take(len(dst))
		if r.short {
			return Dict{}, fmt.Errorf("cut off in tensor %q", d.names[i])
		}
		copy(dst, src)
	}
	if len(r.b) > 0 {
		return Dict{}, fmt.Errorf("%d bytes after the last tensor", len(r.b))
	}
	return d, nil
}

// newDict returns zeroed tensors in one block of the Go heap.
func newDict(fields []Field) Dict {
	l := NewLayout(fields...)
	return l.Bind(New(U8, l.Size()).Bytes())
}

// sizeOf returns the size in bytes of a tensor whose shape was read from a message or file. ok is false if no tensor in
// memory can have that shape.
func sizeOf(dtype DType, shape []int) (n int, ok bool) {
	const limit = 1 << 47 // bytes that a process can address
	span, empty := dtype.Size(), false
	for _, d := range shape {
		switch {
		case d < 0:
			return 0, false
		case d == 0:
			empty = true
		case span > limit/d:
			return 0, false
		default:
			span *= d
		}
	}
	if empty {
		return 0, true
	}
	return span, true
}

// A reader takes bytes from the front of b. When too few bytes are left, take returns nil and number returns 0.
type reader struct {
	b     []byte
	short bool // whether b had too few bytes for a call
}

func (r *reader) take(n int) []byte {
	if r.short || n > len(r.b) {
		r.short = true
		return nil
	}
	t := r.b[:n]
	r.b = r.b[n:]
	return t
}

// number takes a little-endian integer of size bytes.
func (r *reader) number(size int) uint64 {
	var word [8]byte
	copy(word[:], r.take(size))
	return binary.LittleEndian.Uint64(word[:])
}
