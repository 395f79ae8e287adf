package external

// cacheLine is the number of bytes in a cache line.
const cacheLine = 64

// take copies src, which the other side has written, to dst. It writes each whole line of src back
// unchanged as soon as it has read it, so that this core owns the line exclusively, and the other side gets
// it in one transfer when it writes there again. A line that was only read stays in both caches; writing it
// would first invalidate the other copy, line by line. That takes longer than all other work on an image.
func take(dst, src []byte) {
	n := takeLines(dst, src)
	copy(dst[n:], src[n:])
}

// claim is take for memory that is read in place.
func claim(memory []byte) { take(memory, memory) }
