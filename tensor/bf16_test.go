package tensor

import (
	"math"
	"testing"
)

// ToBF16 returns the nearer of the two neighbours by a comparison in float64, or the even one of two that are
// equally near.
func TestBF16RoundsToNearest(t *testing.T) {
	src, got, back := make([]float32, 1), make([]uint16, 1), make([]float32, 1)
	checked := 0
	for b := uint64(0); b < 1<<32; b += 40503 { // every sign and exponent, all kinds of tails
		for _, tail := range []uint32{uint32(b), uint32(b)&^0xffff | 0x8000, uint32(b)&^0xffff | 0x7fff,
			uint32(b)&^0xffff | 0x8001, uint32(b) &^ 0xffff} {
			src[0] = math.Float32frombits(tail)
			ToBF16(got, src)
			FromBF16(back, got)
			checked++
			if src[0] != src[0] {
				if back[0] == back[0] {
					t.Fatalf("NaN %#x became %v", tail, back[0])
				}
				continue
			}
			// the neighbours towards 0 and away from it; Inf follows the largest
			down, up := uint16(tail>>16), uint16(tail>>16)+1
			value := func(b uint16) float64 {
				if b&0x7fff == 0x7f80 { // where the next number would be, were there one
					return math.Copysign(0x1p128, float64(math.Float32frombits(uint32(b)<<16)))
				}
				return float64(math.Float32frombits(uint32(b) << 16))
			}
			want, x := down, float64(src[0])
			if tail&0xffff != 0 {
				toDown, toUp := math.Abs(x-value(down)), math.Abs(value(up)-x)
				if toUp < toDown || toUp == toDown && up&1 == 0 {
					want = up
				}
			}
			if got[0] != want {
				t.Fatalf("%v (%#x): %#x, want %#x", src[0], tail, got[0], want)
			}
		}
	}
	t.Logf("%d numbers", checked)
	panics(t, "length", func() { ToBF16(nil, src) })
	panics(t, "length", func() { FromBF16(nil, got) })
}
