package external

import (
	"bytes"
	"testing"
)

// TestTake: take copies exactly the source, and take and claim leave the source unchanged, at any alignment.
func TestTake(t *testing.T) {
	const guard = 0xA5
	for n := range 4*cacheLine + 2 {
		for _, at := range []int{0, 1, 17, 63} {
			src, dst := make([]byte, 8*cacheLine), bytes.Repeat([]byte{guard}, 8*cacheLine)
			for i := range src {
				src[i] = byte(3*i + 1)
			}
			before, want := bytes.Clone(src), bytes.Clone(dst)
			copy(want[2*at:2*at+n], src[at:at+n])
			take(dst[2*at:2*at+n], src[at:at+n])
			if !bytes.Equal(dst, want) {
				t.Fatalf("%d bytes from byte %d to %d: %v, want %v", n, at, 2*at, dst, want)
			}
			if claim(src[at : at+n]); !bytes.Equal(src, before) {
				t.Fatalf("%d bytes from byte %d: what was read is %v, was %v", n, at, src, before)
			}
		}
	}
}
