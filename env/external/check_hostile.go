package external

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/rlinf/rlinf/env"
)

// An attack is invalid input, followed by the end of the stream.
type attack struct {
	name      string
	after     kind // last valid frame before the attack: config or reset, or hello for none
	bytes     func(t *trial) []byte
	tolerable bool // if true, the child may answer instead of failing
}

// A change modifies the header and the payload of a frame.
type change func(h *header, payload []byte) []byte

// attacks returns the rules for invalid input. The child must end with an error, or answer if the
// input is tolerable. It must neither crash nor hang.
func attacks() []rule {
	configs := func(c change) func(*trial) []byte {
		return func(t *trial) []byte {
			return frame(header{kind: config}, t.configPayload("", 0), c)
		}
	}
	word := func(i int, x uint32) func(*trial) []byte {
		return configs(func(_ *header, p []byte) []byte { binary.LittleEndian.PutUint32(p[4*i:], x); return p })
	}
	request := func(k kind, c change) func(*trial) []byte {
		return func(t *trial) []byte {
			t.act(0)
			copy(t.mask, t.all())
			return frame(header{kind: k, count: uint32(t.n), seq: t.seq + 1},
				bytes.Clone(t.memory.bytes[:t.blocks.request.Size()]), c)
		}
	}
	cut := func(_ *header, p []byte) []byte { return p[:len(p)-1] }
	lengthened := func(_ *header, p []byte) []byte { return append(p, 0) }
	length := func(n uint64) change { return func(h *header, p []byte) []byte { h.length = n; return p } }
	list := []attack{
		{name: "bytes that are no frame", after: hello, bytes: func(*trial) []byte {
			return bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 64)
		}},
		{name: "another magic", after: hello, bytes: func(t *trial) []byte {
			return append([]byte("RLB2"), word(0, version)(t)[4:]...)
		}},
		{name: "a STEP in place of CONFIG", after: hello,
			bytes: configs(func(h *header, p []byte) []byte { h.kind = step; return p })},
		{name: "a HELLO in place of CONFIG", after: hello,
			bytes: configs(func(h *header, p []byte) []byte { h.kind = hello; return p })},
		{name: "a CONFIG that is too short", after: hello, bytes: configs(cut)},
		{name: "a CONFIG without payload", after: hello, bytes: configs(func(*header, []byte) []byte { return nil })},
		{name: "a CONFIG of 2⁶³ bytes", after: hello, bytes: configs(length(1 << 63))},
		{name: "a CONFIG whose path has 2²⁰ bytes", after: hello, bytes: configs(func(_ *header, p []byte) []byte {
			return append(p, bytes.Repeat([]byte{'/'}, 1<<20)...)
		})},
		{name: "a CONFIG of version 2", after: hello, bytes: word(0, version+1)},
		{name: "a CONFIG of no environments", after: hello, bytes: word(1, 0)},
		{name: "a CONFIG of 2³²-1 environments", after: hello, bytes: word(1, math.MaxUint32)},
		{name: "a CONFIG with unknown flags", after: hello, bytes: word(4, 1<<31), tolerable: true},
		{name: "a CONFIG with 64 bytes of shared memory", after: hello, bytes: func(t *trial) []byte {
			return frame(header{kind: config}, t.configPayload("/proc/self/fd/5", 64), nil)
		}},
		{name: "a CONFIG with 2⁶³ bytes of shared memory", after: hello, bytes: func(t *trial) []byte {
			return frame(header{kind: config}, t.configPayload("/proc/self/fd/5", 1<<63), nil)
		}, tolerable: true},
		{name: "half a header", after: hello, bytes: func(t *trial) []byte {
			return word(0, version)(t)[:headerSize/2]
		}, tolerable: true},
		{name: "half a CONFIG", after: hello, bytes: func(t *trial) []byte {
			return word(0, version)(t)[:headerSize+configSize/2]
		}, tolerable: true},

		{name: "a second CONFIG", after: config, bytes: word(0, version)},
		{name: "a STEP before the first RESET", after: config, bytes: request(step, nil), tolerable: true},
		{name: "a RESULT", after: config, bytes: request(result, nil)},
		{name: "a frame of type 0", after: config, bytes: request(0, nil)},
		{name: "a frame of type 65535", after: config, bytes: request(math.MaxUint16, nil)},
		{name: "a RESET of too many environments", after: config,
			bytes: request(reset, func(h *header, p []byte) []byte { h.count++; return p }), tolerable: true},
		{name: "a RESET that is too short", after: config, bytes: request(reset, cut)},
		{name: "a RESET that is too long", after: config, bytes: request(reset, lengthened)},
		{name: "a RESET without payload", after: config, bytes: request(reset, func(*header, []byte) []byte {
			return nil
		})},
		{name: "a RESET of 2³¹ bytes", after: config, bytes: request(reset, length(maxPayload))},
		{name: "a RESET of 2⁶⁴-1 bytes", after: config, bytes: request(reset, length(math.MaxUint64))},
		{name: "a RESET with unknown flags", after: config,
			bytes: request(reset, func(h *header, p []byte) []byte { h.flags = 1 << 15; return p }), tolerable: true},
		{name: "a RESET with a seq that is not the next", after: config,
			bytes: request(reset, func(h *header, p []byte) []byte { h.seq += 5; return p }), tolerable: true},
		{name: "a LOAD that is too short", after: config,
			bytes: request(load, func(h *header, p []byte) []byte { h.count = 0; return p[:1] })},
		{name: "a RENDER that is too short", after: config,
			bytes: request(render, func(h *header, p []byte) []byte { h.count = 0; return p[:7] })},
		{name: "a RENDER of 2³²-1 by 2³²-1 pixels", after: config, bytes: func(t *trial) []byte {
			return frame(header{kind: render, seq: 1}, append(bytes.Repeat([]byte{255}, 8), t.all()...), nil)
		}},

		{name: "an action that is none", after: reset, bytes: func(t *trial) []byte {
			frame := request(step, nil)(t)
			copy(frame[headerSize:], notAnAction(t.greeting.spec.Action))
			return frame
		}, tolerable: true},
		{name: "a mask of 255", after: reset, bytes: func(t *trial) []byte {
			frame := request(step, nil)(t)
			frame[headerSize+t.blocks.request.Offset(2)] = 255
			return frame
		}, tolerable: true},
		{name: "half a STEP", after: reset, bytes: func(t *trial) []byte {
			frame := request(step, nil)(t)
			return frame[:len(frame)/2]
		}, tolerable: true},
		{name: "a STEP, and bytes that are no frame", after: reset, bytes: func(t *trial) []byte {
			return append(request(step, nil)(t), bytes.Repeat([]byte{0xA5}, 100)...)
		}},
	}
	var out []rule
	for _, a := range list {
		out = append(out, rule{"hostile: " + a.name, func(k *checker) error {
			return k.greeted(func(t *trial) error { return t.bear(a) })
		}})
	}
	return out
}

// configPayload returns the payload of a CONFIG with this shared memory.
func (t *trial) configPayload(path string, sharedSize uint64) []byte {
	return configPayload(setup{n: t.check.n}, t.greeting.Intervene, path, sharedSize)
}

// frame returns the bytes of a frame, modified by c unless c is nil. The header has the length of
// the modified payload, unless c changes the length.
func frame(h header, payload []byte, c change) []byte {
	whole := uint64(len(payload))
	if h.length = whole; c != nil {
		payload = c(&h, payload)
	}
	if h.length == whole {
		h.length = uint64(len(payload))
	}
	head := make([]byte, headerSize)
	h.put(head)
	return append(head, payload...)
}

// notAnAction returns the bytes of a number that is invalid in any action of s.
func notAnAction(s env.Space) []byte {
	x := uint32(math.MaxInt32)
	if s.Kind == env.Box {
		x = math.Float32bits(float32(math.NaN()))
	}
	return binary.LittleEndian.AppendUint32(nil, x)
}

// bear sends the input to the child, and returns an error if the child crashes, hangs, or silently
// accepts the input.
func (t *trial) bear(input attack) error {
	if input.after != hello {
		if err := t.configure(setup{}); err != nil {
			return err
		}
	}
	if input.after == reset {
		if err := t.resetAll(); err != nil {
			return err
		}
	}
	if err := t.stream.Send(t.check.by(), input.bytes(t), nil); err != nil && !errors.Is(err, ErrGone) {
		return err
	}
	if err := t.stream.finish(); err != nil {
		return err
	}
	by := t.check.by()
	var said []string
	failed := false
	for {
		head, _, err := t.stream.Receive(by, func(head []byte) (uint64, error) {
			h, err := parse(head)
			return h.length, err
		})
		if errors.Is(err, ErrGone) {
			break
		}
		if err != nil {
			return fmt.Errorf("after that: %w", err)
		}
		h, _ := parse(head)
		if h.kind != logLine {
			said = append(said, h.kind.String())
		}
		failed = failed || h.kind == failure
	}
	if err := t.ends(by); err != nil || failed || t.proc.program.Err() != nil || input.tolerable {
		return err
	}
	if said == nil {
		return errors.New("exit status 0 without a word, expected ERROR, or another exit status")
	}
	return fmt.Errorf("%s and exit status 0, expected ERROR, or another exit status", strings.Join(said, ", "))
}
