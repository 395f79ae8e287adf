package external

import "golang.org/x/sys/cpu"

// takeLines takes the whole lines of src into dst, and returns the number of bytes that it has
// taken.
func takeLines(dst, src []byte) int {
	n := len(src) / cacheLine
	if n == 0 || !cpu.X86.HasAVX {
		return 0
	}
	takeAVX(&dst[:n*cacheLine][0], &src[0], n)
	return n * cacheLine
}

// takeAVX takes n lines, at least one.
//
//go:noescape
func takeAVX(dst, src *byte, n int)

// pause leaves the core to its other hardware thread for some 10 to 50 ns.
func pause()
