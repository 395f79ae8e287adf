package external

// cacheLine is the number of bytes in a cache line.
const cacheLine = 64

// take copies src, which the other side has written, to dst. It also writes each whole cache line of src back
// unchanged, right after reading it. This core then owns the line exclusively, and the other side's next write to it
// needs only one transfer. A line that was only read stays in both caches. The other side's next write must first
// invalidate this core's copy, line by line. For an image, that takes longer than all other work.
func take(dst, src []byte) {
	n := takeLines(dst, src)
	copy(dst[n:], src[n:])
}

// claim is take for memory that is read in place: it writes the memory back unchanged.
func claim(memory []byte) { take(memory, memory) }
