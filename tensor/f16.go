package tensor

import "math"

// ToF16 sets dst to the float16 bits of src. Both slices must have the same length. Values are rounded to the nearest
// float16, ties to even. Values that are too large become infinite. NaN stays NaN.
func ToF16(dst []uint16, src []float32) {
	if len(dst) != len(src) {
		panic("tensor: ToF16: length mismatch")
	}
	for i, x := range src {
		dst[i] = toF16(x)
	}
}

func toF16(x float32) uint16 {
	b := math.Float32bits(x)
	sign := uint16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN
		return sign | 0x7e00
	case b >= 0x477ff000: // rounds to 65536 or more
		return sign | 0x7c00
	case b < 0x38800000: // subnormal: adding 1/2 aligns x to multiples of 2^-24
		return sign | uint16(math.Float32bits(math.Float32frombits(b)+0.5)-math.Float32bits(0.5))
	}
	return sign | uint16((b-(112<<23)+0xfff+b>>13&1)>>13)
}

// FromF16 sets dst to the values of the float16 bits in src. Both slices must have the same length. The conversion is
// exact.
func FromF16(dst []float32, src []uint16) {
	if len(dst) != len(src) {
		panic("tensor: FromF16: length mismatch")
	}
	for i, h := range src {
		b := uint32(h&0x7fff) << 13
		x := math.Float32frombits(b) * 0x1p112 // exact; the exponent's bias is 15 in float16 and 127 in float32
		if h&0x7c00 == 0x7c00 {
			x = math.Float32frombits(b | 0x7f800000)
		}
		dst[i] = math.Float32frombits(math.Float32bits(x) | uint32(h&0x8000)<<16)
	}
}
