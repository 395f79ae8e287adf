package external

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// A bell is a place in shared memory for the header of a frame without payload: one side leaves it
// there, and the other sees it while it looks. So the frame takes no system call. Who is about to
// sleep says so first, and gets frames by the stream again.
//
// Its words are those of the header, of which seq is written last, and one that is 1 while the side
// that waits will look here before it sleeps.
type bell [bellSize / 8]uint64

const (
	bellSize = 64
	seqWord  = 2
	looking  = headerSize / 8
)

// Bells are those of a conversation, as one of its sides sees them.
type bells struct {
	out, in *bell
	heard   uint64 // seq of the last frame that was taken from in
	taken   uint64 // seq of the last one that came by in or by the stream
}

// bellsSize is how much memory they take: the parent's, then the child's.
const bellsSize = 2 * bellSize

func newBells(memory []byte, child bool) *bells {
	at := func(b []byte) *bell { return (*bell)(unsafe.Pointer((*[bellSize]byte)(b))) }
	b := &bells{out: at(memory), in: at(memory[bellSize:])}
	if child {
		b.out, b.in = b.in, b.out
	}
	return b
}

// carries says whether a frame with this header may come by a bell.
func carries(head []byte) bool {
	k := kind(binary.LittleEndian.Uint16(head[4:]))
	return (k == reset || k == step || k == result) && binary.LittleEndian.Uint64(head[24:]) == 0
}

// news says whether a header that came is not the second of a frame that came by bell and stream.
func (b *bells) news(head []byte) bool {
	if !carries(head) {
		return true
	}
	seq := binary.LittleEndian.Uint64(head[8*seqWord:])
	if seq <= b.taken {
		return false
	}
	b.taken = seq
	return true
}

// ring leaves a header, whose seq is new, and reports whether the other side sees it. Between the
// two is a barrier: either it is seen, or that nobody looks.
func (b *bells) ring(head []byte) bool {
	for _, i := range [...]int{0, 1, 3, seqWord} {
		atomic.StoreUint64(&b.out[i], binary.LittleEndian.Uint64(head[8*i:]))
	}
	return atomic.LoadUint64(&b.out[looking]) != 0
}

// rung writes the header of a frame that was not taken yet to head, and returns which look found
// it; 0: none did.
func (b *bells) rung(looks int, head []byte) int {
	for look := 1; look <= looks; look++ {
		if seq := atomic.LoadUint64(&b.in[seqWord]); seq != b.heard {
			for i := range headerSize / 8 {
				binary.LittleEndian.PutUint64(head[8*i:], atomic.LoadUint64(&b.in[i]))
			}
			// of a frame that came by the stream, the rest may be the next one's by now
			binary.LittleEndian.PutUint64(head[8*seqWord:], seq)
			b.heard = seq
			return look
		}
		pause()
	}
	return 0
}

// look tells the other side that this one looks here before it sleeps.
func (b *bells) look() {
	if atomic.LoadUint64(&b.in[looking]) == 0 {
		atomic.StoreUint64(&b.in[looking], 1)
	}
}

// leave tells it that this one does not, and then does what rung does: something may have come
// before that was seen.
func (b *bells) leave(head []byte) bool {
	if atomic.LoadUint64(&b.in[looking]) == 0 {
		return false
	}
	atomic.StoreUint64(&b.in[looking], 0)
	return b.rung(1, head) > 0
}
