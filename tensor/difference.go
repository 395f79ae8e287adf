package tensor

import (
	"encoding/binary"
	"fmt"
	"math"
)

// FirstDifference compares the elements of two tensors of the same type, in little-endian bytes of the same length. It
// returns the index of the first element that differs, or -1 if the bytes are equal. what has both values, and for F32
// and F64 their distance in units in the last place.
func FirstDifference(d DType, one, other []byte) (index int, what string) {
	size := d.Size()
	for i := 0; i+size <= len(one); i += size {
		a, b := one[i:i+size], other[i:i+size]
		if string(a) == string(b) {
			continue
		}
		switch d {
		case F32:
			x, y := binary.LittleEndian.Uint32(a), binary.LittleEndian.Uint32(b)
			what = fmt.Sprintf("%v, and %v%s", math.Float32frombits(x), math.Float32frombits(y),
				ulps(ordered32(x), ordered32(y)))
		case F64:
			x, y := binary.LittleEndian.Uint64(a), binary.LittleEndian.Uint64(b)
			what = fmt.Sprintf("%v, and %v%s", math.Float64frombits(x), math.Float64frombits(y),
				ulps(ordered64(x), ordered64(y)))
		case I32:
			what = fmt.Sprintf("%d, and %d", int32(binary.LittleEndian.Uint32(a)), int32(binary.LittleEndian.Uint32(b)))
		case I64:
			what = fmt.Sprintf("%d, and %d", int64(binary.LittleEndian.Uint64(a)), int64(binary.LittleEndian.Uint64(b)))
		default:
			what = fmt.Sprintf("%#x, and %#x", a, b)
		}
		return i / size, what
	}
	return -1, ""
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
