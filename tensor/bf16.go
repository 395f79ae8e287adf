package tensor

import "math"

// ToBF16 sets dst to the bfloat16 bits of src. Both slices must have the same length. Values are rounded to the nearest
// bfloat16, ties to even. Values that are too large become infinite. NaN stays NaN.
func ToBF16(dst []uint16, src []float32) {
	if len(dst) != len(src) {
		panic("tensor: ToBF16: length mismatch")
	}
	for i, x := range src {
		b := math.Float32bits(x)
		if x != x {
			dst[i] = uint16(b>>16) | 0x40 // a quiet NaN; without this bit the upper half could be an infinity
			continue
		}
		dst[i] = uint16((b + 0x7fff + b>>16&1) >> 16)
	}
}

// FromBF16 sets dst to the values of the bfloat16 bits in src. Both slices must have the same length. The conversion is
// exact.
func FromBF16(dst []float32, src []uint16) {
	if len(dst) != len(src) {
		panic("tensor: FromBF16: length mismatch")
	}
	for i, b := range src {
		dst[i] = math.Float32frombits(uint32(b) << 16)
	}
}
