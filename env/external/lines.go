package external

// cacheLine is how many bytes the caches of cores hand to each other as one.
const cacheLine = 64

// take copies src, which the other side has written, to dst. It writes each whole line of src back
// unchanged as soon as it has read it, so that this core owns the line exclusively and the other
// side gets it in one transfer when it writes there again. A line that was only read is in both
// caches. A write to it first invalidates the other copy, line by line, which takes longer than
// everything else that is done with an image.
func take(dst, src []byte) {
	n := takeLines(dst, src)
	copy(dst[n:], src[n:])
}

// claim is take for memory that is read in place.
func claim(memory []byte) { take(memory, memory) }
