package spmd

import (
	"context"
	"encoding/binary"
	"fmt"
)

// A port is a member's end of a channel's communicator, with the small sends that nobody has waited
// for. It belongs to the member's goroutine. A nil port is that of a member whose peers are all in
// its process.
type port struct {
	comm  Comm
	sends []Request
}

// post sends b, which stays untouched from then on or is known to have left.
func (p *port) post(b []byte, to, tag int) error {
	for i := 0; i < len(p.sends); { // those before have left by now, as a rule
		done, err := p.comm.Test(&p.sends[i])
		if err != nil {
			return err
		}
		if !done {
			i++
			continue
		}
		last := len(p.sends) - 1
		p.sends[i] = p.sends[last]
		p.sends = p.sends[:last]
	}
	r, err := p.comm.Isend(b, to, tag)
	if err != nil {
		return err
	}
	if r.Handle != 0 {
		p.sends = append(p.sends, r)
	}
	return nil
}

// drain waits for all that was posted.
func (p *port) drain(ctx context.Context) error {
	if p == nil || len(p.sends) == 0 {
		return nil
	}
	err := p.comm.Wait(ctx, p.sends)
	p.sends = p.sends[:0]
	return err
}

// cancel takes a receive back, or waits for it where its message is on the way.
func (p *port) cancel(ctx context.Context, r *Request) error {
	if r.Handle == 0 || p.comm.Cancel(r) == nil {
		return nil
	}
	reqs := [1]Request{*r}
	err := p.comm.Wait(ctx, reqs[:])
	*r = reqs[0]
	return err
}

// A note is a small message of fixed size: what a producer or a consumer wants of a key.
type note struct {
	op    byte
	tag   int
	count int // items sent (opClose), the largest weight wanted (opGet, opTryGet)
	name  string
}

const (
	opOpen   byte = 1 + iota // the producer will send items of key name with tag
	opClose                  // it has sent count, and will send no more
	opLeave                  // so for all keys
	opGet                    // the consumer waits for an item of key name, and takes it with tag
	opTryGet                 // likewise, but does not wait
	opState                  // the consumer wants to know what is queued
)

const noteBytes = 16 + maxKeyName

func (n note) write(b []byte) []byte {
	b[0], b[1] = n.op, byte(len(n.name))
	binary.LittleEndian.PutUint16(b[2:], uint16(n.tag))
	binary.LittleEndian.PutUint64(b[8:], uint64(n.count))
	copy(b[16:], n.name)
	return b[:16+len(n.name)]
}

// readNote returns the name as a view of b.
func readNote(b []byte) (n note, name []byte, err error) {
	if len(b) < 16 || len(b) != 16+int(b[1]) {
		return n, nil, fmt.Errorf("a note of %d bytes", len(b))
	}
	n = note{op: b[0], tag: int(binary.LittleEndian.Uint16(b[2:])),
		count: int(int64(binary.LittleEndian.Uint64(b[8:])))}
	return n, b[16:], nil
}
