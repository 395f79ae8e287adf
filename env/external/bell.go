package external

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// A bell is a slot in shared memory for the header of a frame without payload. One side writes the
// header and the other side finds it by polling, so the frame takes no system call. Before a side
// blocks, it announces this. While it is blocked, it receives frames from the stream.
//
// A bell has the words of the header and the word looking. The word seq of the header is written
// last. looking is 1 while the receiver will poll the bell before it blocks.
type bell [bellSize / 8]uint64

const (
	bellSize = 64
	seqWord  = 2
	looking  = headerSize / 8
)

// bells are the two bells of a conversation, as one side sees them.
type bells struct {
	out, in *bell
	heard   uint64 // seq of the last frame from the bell in
	taken   uint64 // seq of the last frame from the bell in or from the stream
}

// bellsSize is the size of both bells in bytes: the parent's, then the child's.
const bellsSize = 2 * bellSize

func newBells(memory []byte, child bool) *bells {
	at := func(b []byte) *bell { return (*bell)(unsafe.Pointer((*[bellSize]byte)(b))) }
	b := &bells{out: at(memory), in: at(memory[bellSize:])}
	if child {
		b.out, b.in = b.in, b.out
	}
	return b
}

// carries reports whether a frame with this header may travel by a bell.
func carries(head []byte) bool {
	k := kind(binary.LittleEndian.Uint16(head[4:]))
	return (k == reset || k == step || k == result) && binary.LittleEndian.Uint64(head[24:]) == 0
}

// news reports whether a received header is new. A frame may arrive both by the bell and by the
// stream, and only the first arrival is new.
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

// ring writes a header with a new seq, and reports whether the other side will see it. The stores
// and the load are sequentially consistent: either the other side finds the header, or this side
// finds that the other does not poll.
func (b *bells) ring(head []byte) bool {
	for _, i := range [...]int{0, 1, 3, seqWord} {
		atomic.StoreUint64(&b.out[i], binary.LittleEndian.Uint64(head[8*i:]))
	}
	return atomic.LoadUint64(&b.out[looking]) != 0
}

// rung polls the bell in. The argument looks is the largest number of polls. If there is a new
// header, rung copies it to head and returns the number of the poll that found it. Otherwise it
// returns 0.
func (b *bells) rung(looks int, head []byte) int {
	for look := 1; look <= looks; look++ {
		if seq := atomic.LoadUint64(&b.in[seqWord]); seq != b.heard {
			for i := range headerSize / 8 {
				binary.LittleEndian.PutUint64(head[8*i:], atomic.LoadUint64(&b.in[i]))
			}
			// if the frame came by the stream, the other words may already be the next frame's
			binary.LittleEndian.PutUint64(head[8*seqWord:], seq)
			b.heard = seq
			return look
		}
		pause()
	}
	return 0
}

// look tells the other side that this side will poll the bell before it blocks.
func (b *bells) look() {
	if atomic.LoadUint64(&b.in[looking]) == 0 {
		atomic.StoreUint64(&b.in[looking], 1)
	}
}

// leave tells the other side that this side will block. It then polls once more, because the other
// side may have rung before it noticed. It reports whether this poll found a frame.
func (b *bells) leave(head []byte) bool {
	if atomic.LoadUint64(&b.in[looking]) == 0 {
		return false
	}
	atomic.StoreUint64(&b.in[looking], 0)
	return b.rung(1, head) > 0
}
