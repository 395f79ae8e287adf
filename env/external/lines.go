package external

// cacheLine is how many bytes the caches of cores hand to each other as one.
const cacheLine = 64

// take copies src, which the other side has written, to dst, and writes to each whole line of src,
// as soon as it is read, what stands there. So the line is this core's alone, and the other side
// gets it back at once when it writes there again. A line that was only read is in both caches: who
// writes to it waits until the other has given up its copy, line by line, which takes longer than
// all else that is done with an image.
func take(dst, src []byte) {
	n := takeLines(dst, src)
	copy(dst[n:], src[n:])
}

// claim is take for what is read where it stands.
func claim(memory []byte) { take(memory, memory) }
