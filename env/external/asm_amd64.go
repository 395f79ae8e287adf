package external

import "golang.org/x/sys/cpu"

// takeLines does the work of take for the whole cache lines of src. It returns the number of bytes
// that it has copied.
func takeLines(dst, src []byte) int {
	n := len(src) / cacheLine
	if n == 0 || !cpu.X86.HasAVX {
		return 0
	}
	takeAVX(&dst[:n*cacheLine][0], &src[0], n)
	return n * cacheLine
}

// takeAVX does the work of take for n cache lines. n must be at least 1.
//
//go:noescape
func takeAVX(dst, src *byte, n int)

// pause leaves the core to its other hardware thread for some 10 to 50 ns.
func pause()
