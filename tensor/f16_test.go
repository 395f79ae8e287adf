package tensor

import (
	"math"
	"testing"
)

// Every float16 survives the way through float32. A value between two float16 rounds to the nearer one, or to the even
// one.
func TestF16(t *testing.T) {
	value := func(h uint16) float64 { // from the definition of the format
		frac, exp := float64(h&0x3ff), int(h>>10&31)
		v := math.Ldexp(1+frac/1024, exp-15)
		if exp == 0 {
			v = math.Ldexp(frac/1024, -14)
		}
		if h&0x8000 != 0 {
			v = -v
		}
		return v
	}
	var back [1]uint16
	var wide [1]float32
	for h := range 1 << 16 {
		h := uint16(h)
		FromF16(wide[:], []uint16{h})
		ToF16(back[:], wide[:])
		switch {
		case h&0x7c00 == 0x7c00 && h&0x3ff != 0:
			if wide[0] == wide[0] || back[0]&0x7e00 != 0x7e00 {
				t.Fatalf("NaN %#04x: %g, back %#04x", h, wide[0], back[0])
			}
			continue
		case h&0x7c00 == 0x7c00:
			if !math.IsInf(float64(wide[0]), 0) {
				t.Fatalf("%#04x: %g, want infinity", h, wide[0])
			}
		case float64(wide[0]) != value(h):
			t.Fatalf("%#04x: %g, want %g", h, wide[0], value(h))
		}
		if back[0] != h {
			t.Fatalf("%#04x: %g, back %#04x", h, wide[0], back[0])
		}
		if h&0x7fff < 0x7bff { // and to the next one up in size
			next := value(h + 1)
			mid := (value(h) + next) / 2
			for _, c := range []struct {
				x    float64
				want uint16
			}{{mid, h + h&1}, {mid + (next-mid)/1024, h + 1}, {mid - (next-mid)/1024, h}} {
				ToF16(back[:], []float32{float32(c.x)})
				if back[0] != c.want {
					t.Fatalf("%g: %#04x, want %#04x", c.x, back[0], c.want)
				}
			}
		}
	}
	for x, want := range map[float32]uint16{65519: 0x7bff, 65520: 0x7c00, 1e30: 0x7c00, -65536: 0xfc00, 1e-30: 0} {
		if ToF16(back[:], []float32{x}); back[0] != want {
			t.Errorf("%g: %#04x, want %#04x", x, back[0], want)
		}
	}
	panics(t, "length", func() { ToF16(nil, wide[:]) })
	panics(t, "length", func() { FromF16(nil, back[:]) })
}
