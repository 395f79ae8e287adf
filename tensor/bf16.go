package tensor

import "math"

// ToBF16 rounds src to bfloat16 and writes the bits to dst, which has the same length. It rounds to
// the nearest, ties to even. A value that is too large becomes infinite; a NaN stays a NaN.
func ToBF16(dst []uint16, src []float32) {
	if len(dst) != len(src) {
		panic("tensor: ToBF16: length mismatch")
	}
	for i, x := range src {
		b := math.Float32bits(x)
		if x != x {
			dst[i] = uint16(b>>16) | 0x40 // a quiet NaN; without this bit the upper half may mean an infinity
			continue
		}
		dst[i] = uint16((b + 0x7fff + b>>16&1) >> 16)
	}
}

// FromBF16 converts the bfloat16 bits in src to float32 in dst, which has the same length. The
// conversion is exact.
func FromBF16(dst []float32, src []uint16) {
	if len(dst) != len(src) {
		panic("tensor: FromBF16: length mismatch")
	}
	for i, b := range src {
		dst[i] = math.Float32frombits(uint32(b) << 16)
	}
}
