package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
)

// FirstDifference compares the elements of two tensors of the same type, in little-endian bytes of the same length. It
// returns the index of the first element that differs, or -1 if the bytes are equal. The text what has both values. For
// F32 and F64 it also has their distance in units in the last place.
func FirstDifference(d DType, one, other []byte) (index int, what string) {
	size := d.Size()
	for i := 0; i+size <= len(one); i += size {
		a, b := one[i:i+size], other[i:i+size]
		if string(a) == string(b) {
			continue
		}
		what = element(d, a) + ", and " + element(d, b)
		switch d {
		case F32:
			what += ulps(ordered32(binary.LittleEndian.Uint32(a)), ordered32(binary.LittleEndian.Uint32(b)))
		case F64:
			what += ulps(ordered64(binary.LittleEndian.Uint64(a)), ordered64(binary.LittleEndian.Uint64(b)))
		}
		return i / size, what
	}
	return -1, ""
}

// Text returns element i of t as text, with all digits.
func (t Tensor) Text(i int) string {
	size := t.DType().Size()
	return element(t.DType(), t.Bytes()[i*size:(i+1)*size])
}

// element returns an element of this type as text.
func element(d DType, b []byte) string {
	switch d {
	case F32:
		return fmt.Sprint(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case F64:
		return fmt.Sprint(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case I32:
		return fmt.Sprint(int32(binary.LittleEndian.Uint32(b)))
	case I64:
		return fmt.Sprint(int64(binary.LittleEndian.Uint64(b)))
	case U8:
		return fmt.Sprint(b[0])
	}
	return fmt.Sprintf("%#x", b)
}

func ulps(a, b int64) string {
	distance := uint64(a) - uint64(b)
	if a < b {
		distance = uint64(b) - uint64(a)
	}
	if distance == 1 {
		return ", 1 unit in the last place apart"
	}
	return fmt.Sprintf(", %d units in the last place apart", distance)
}

// ordered32 maps the bits of a float32 to integers in the order of the numbers. Neighbours differ by 1.
func ordered32(bits uint32) int64 {
	if bits>>31 != 0 {
		return -int64(bits &^ (1 << 31))
	}
	return int64(bits)
}

func ordered64(bits uint64) int64 {
	if bits>>63 != 0 {
		return -int64(bits &^ (1 << 63))
	}
	return int64(bits)
}
