package external

import (
	"encoding/binary"
	"fmt"
)

// A kind is the type of a frame.
type kind uint16

const (
	hello kind = 1 + iota
	config
	ready
	reset
	step
	result
	closing
	failure
	logLine
	save
	load
	render
	grade
	expert
)

func (k kind) String() string {
	names := [...]string{"HELLO", "CONFIG", "READY", "RESET", "STEP", "RESULT", "CLOSE", "ERROR", "LOG", "SAVE", "LOAD",
		"RENDER", "GRADE", "EXPERT"}
	if k >= hello && int(k) <= len(names) {
		return names[k-1]
	}
	return fmt.Sprintf("type %d", uint16(k))
}

// The flags of frames.
const (
	flagShared    = 1 // READY: the shared memory is mapped
	flagAutoReset = 2 // STEP: ended episodes are reset in the same step
	flagFinal     = 4 // RESULT: an episode ended under flagAutoReset
)

const (
	headerSize = 32
	magic      = "RLB1"
	maxPayload = 1 << 31
	maxText    = 1 << 20 // maximum bytes of a greeting, an error or a LOG
	maxEnvs    = 1 << 20 // maximum environments of a child
	maxSide    = 1 << 14 // maximum width and height of a picture, in pixels
	configSize = 32      // bytes of a CONFIG, without its path
	maxPath    = 4096
)

// A header begins every frame. The payload follows.
type header struct {
	kind   kind
	flags  uint16
	count  uint32
	seq    uint64
	length uint64
}

// put writes h to the first headerSize bytes of b.
func (h header) put(b []byte) {
	copy(b, magic)
	binary.LittleEndian.PutUint16(b[4:], uint16(h.kind))
	binary.LittleEndian.PutUint16(b[6:], h.flags)
	binary.LittleEndian.PutUint32(b[8:], h.count)
	binary.LittleEndian.PutUint32(b[12:], 0)
	binary.LittleEndian.PutUint64(b[16:], h.seq)
	binary.LittleEndian.PutUint64(b[24:], h.length)
}

// parse reads a header of headerSize bytes. The error names the field that breaks the protocol.
func parse(b []byte) (header, error) {
	h := header{
		kind(binary.LittleEndian.Uint16(b[4:])), binary.LittleEndian.Uint16(b[6:]), binary.LittleEndian.Uint32(b[8:]),
		binary.LittleEndian.Uint64(b[16:]), binary.LittleEndian.Uint64(b[24:]),
	}
	switch {
	case string(b[:4]) != magic:
		return h, fmt.Errorf("%q where a frame should begin, expected %q", b[:4], magic)
	case h.kind < hello || h.kind > expert:
		return h, fmt.Errorf("a frame of type %d, expected 1 to %d", uint16(h.kind), uint16(expert))
	case binary.LittleEndian.Uint32(b[12:]) != 0:
		return h, fmt.Errorf("%v whose reserved bytes are %d, expected 0", h.kind, binary.LittleEndian.Uint32(b[12:]))
	case h.length > maxPayload:
		return h, fmt.Errorf("%v of %d bytes, expected at most %d", h.kind, h.length, uint64(maxPayload))
	}
	return h, nil
}
