package kernel

import (
	"fmt"
	"testing"
)

// Rows lie apart, side by side, or over each other. The elements between rows stay as they are.
func TestColumns(t *testing.T) {
	eachLevel(t, func(t *testing.T, _ level) {
		for _, width := range []int{1, 7, 8, 9, 15, 16, 17, 31, 54, 96} {
			for _, step := range []int{0, 1, width - 1, width, width + 5} {
				for _, n := range []int{1, 2, 5} {
					for _, add := range []bool{false, true} {
						checkColumns(t, width, step, n, add)
					}
				}
			}
		}
	})
	for _, f := range []func([]float32, int, []float32, int, int, int){CopyColumns[float32], AddColumns[float32]} {
		mustPanic(t, "dst too short", func() { f(make([]float32, 9), 5, make([]float32, 10), 5, 5, 2) })
		mustPanic(t, "src too short", func() { f(make([]float32, 10), 5, make([]float32, 9), 5, 5, 2) })
		f(nil, 3, nil, 3, 4, 0)
	}
}

// checkColumns copies or adds rows. Those that may overlap are step apart: rows of dst if they are added, and rows of
// src if they are copied.
func checkColumns(t *testing.T, width, step, n int, add bool) {
	t.Helper()
	apart, close := (n-1)*(width+3)+width, (n-1)*step+width
	dstStep, srcStep, dstLen, srcLen := width+3, step, apart, close
	if add {
		dstStep, srcStep, dstLen, srcLen = step, width+3, close, apart
	}
	dst, src := newGuarded(dstLen, n), randomN(srcLen, 1)
	random(dst.x, 2)
	want := append([]float32(nil), dst.x...)
	for i := range n {
		for k := range width {
			if add {
				want[i*dstStep+k] += src[i*srcStep+k]
			} else {
				want[i*dstStep+k] = src[i*srcStep+k]
			}
		}
	}
	if add {
		AddColumns(dst.x, dstStep, src, srcStep, width, n)
	} else {
		CopyColumns(dst.x, dstStep, src, srcStep, width, n)
	}
	what := fmt.Sprintf("%d rows of %d, %d apart, add %v", n, width, step, add)
	sameBits(t, what, dst.x, want)
	dst.check(t, what)
}
