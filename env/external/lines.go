package external

// cacheLine is the number of bytes in a cache line.
const cacheLine = 64

// take copies src, which the other side has written, to dst. It also writes each whole line of src back
// unchanged, right after reading it. This core then owns the line exclusively, and the other side gets it
// in one transfer when it writes there again. A line that was only read stays in both caches; the other
// side's write must first invalidate this copy, line by line. That takes longer than all other work on an image.
func take(dst, src []byte) {
	n := takeLines(dst, src)
	copy(dst[n:], src[n:])
}

// claim does what take does, for memory that is read in place.
func claim(memory []byte) { take(memory, memory) }
