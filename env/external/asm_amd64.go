package external

import "golang.org/x/sys/cpu"

// takeLines does what the function take does, for the complete cache lines of src. It returns the
// number of bytes copied.
func takeLines(dst, src []byte) int {
	n := len(src) / cacheLine
	if n == 0 || !cpu.X86.HasAVX {
		return 0
	}
	takeAVX(&dst[:n*cacheLine][0], &src[0], n)
	return n * cacheLine
}

// takeAVX copies n cache lines to dst, and writes them back to src. n must be at least 1.
//
//go:noescape
func takeAVX(dst, src *byte, n int)

// pause leaves the core to its other hardware thread for about 10 to 50 ns.
func pause()
