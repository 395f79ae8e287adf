package external

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"
)

// A bell is a slot in shared memory for the header of a frame without payload. The sender writes
// the header, and the receiver polls the bell, so the frame takes no system call. A receiver
// announces when it stops polling and blocks; then frames come through the stream.
//
// A bell has the words of the header, and a word that is 1 while the receiver polls. The sender
// writes the header's word seq last.
type bell [bellSize / 8]uint64

const (
	bellSize = 64
	seqWord  = 2              // index of the sequence number
	looking  = headerSize / 8 // index of the word that is 1 while the receiver polls
)

// bells are the two bells of a conversation, seen from one side.
type bells struct {
	out, in *bell
	heard   uint64 // seq of the last frame from the incoming bell
	taken   uint64 // seq of the last frame from the incoming bell or the stream
}

// bellsSize is the size of both bells in bytes. The parent writes the first bell, the child the
// second.
const bellsSize = 2 * bellSize

func newBells(memory []byte, child bool) *bells {
	at := func(b []byte) *bell { return (*bell)(unsafe.Pointer((*[bellSize]byte)(b))) }
	b := &bells{out: at(memory), in: at(memory[bellSize:])}
	if child {
		b.out, b.in = b.in, b.out
	}
	return b
}

// carries reports whether a bell may carry the frame with this header.
func carries(head []byte) bool {
	k := kind(binary.LittleEndian.Uint16(head[4:]))
	return (k == reset || k == step || k == result) && binary.LittleEndian.Uint64(head[24:]) == 0
}

// news reports whether a received header is new. If a frame arrives through both the bell and the
// stream, only the first arrival is new.
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

// ring writes a header to the outgoing bell, and reports whether the other side polls this bell.
// The stores and the load are sequentially consistent, so if ring returns true, the other side will
// see the header.
func (b *bells) ring(head []byte) bool {
	for _, i := range [...]int{0, 1, 3, seqWord} {
		atomic.StoreUint64(&b.out[i], binary.LittleEndian.Uint64(head[8*i:]))
	}
	return atomic.LoadUint64(&b.out[looking]) != 0
}

// rung polls the incoming bell for a new header, up to the given number of times. If it finds one,
// it copies the header to head and returns the number of polls. Otherwise it returns 0.
func (b *bells) rung(limit int, head []byte) int {
	for look := 1; look <= limit; look++ {
		if seq := atomic.LoadUint64(&b.in[seqWord]); seq != b.heard {
			for i := range headerSize / 8 {
				binary.LittleEndian.PutUint64(head[8*i:], atomic.LoadUint64(&b.in[i]))
			}
			// if the frame also came through the stream, the other words may already belong to the
			// next frame
			binary.LittleEndian.PutUint64(head[8*seqWord:], seq)
			b.heard = seq
			return look
		}
		pause()
	}
	return 0
}

// look announces to the other side that this side polls the incoming bell.
func (b *bells) look() {
	if atomic.LoadUint64(&b.in[looking]) == 0 {
		atomic.StoreUint64(&b.in[looking], 1)
	}
}

// leave announces to the other side that this side stops polling. Then it polls once more, because
// the other side may have rung before it saw the announcement. It reports whether this poll found a
// frame.
func (b *bells) leave(head []byte) bool {
	if atomic.LoadUint64(&b.in[looking]) == 0 {
		return false
	}
	atomic.StoreUint64(&b.in[looking], 0)
	return b.rung(1, head) > 0
}
