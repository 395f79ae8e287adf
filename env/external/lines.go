package external

// cacheLine is the number of bytes in a cache line.
const cacheLine = 64

// take copies src, which the other side has written, to dst. It also writes each complete cache line of src back
// unchanged, so that this core owns the line exclusively. The other side can then overwrite large arrays, such as
// images, faster.
func take(dst, src []byte) {
	n := takeLines(dst, src)
	copy(dst[n:], src[n:])
}

// claim writes memory back unchanged, so that this core owns its cache lines exclusively.
func claim(memory []byte) { take(memory, memory) }
