package spmd

import (
	"context"
	"encoding/binary"
	"fmt"
)

// A port holds the Comm with which one member uses a channel's communicator. It keeps the member's small sends in
// progress, and belongs to the member's goroutine. It is nil if all peers of the member are in the same process.
type port struct {
	comm  Comm
	sends []Request
}

// post starts sending b. The caller must not change b before the send is done.
func (p *port) post(b []byte, to, tag int) error {
	for i := 0; i < len(p.sends); { // usually all earlier sends are done
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

// drain waits until all sends are done.
func (p *port) drain(ctx context.Context) error {
	if p == nil || len(p.sends) == 0 {
		return nil
	}
	err := p.comm.Wait(ctx, p.sends)
	p.sends = p.sends[:0]
	return err
}

// cancel cancels a receive. If a message for the receive is already arriving, cancel waits for the
// message.
func (p *port) cancel(ctx context.Context, r *Request) error {
	if r.Handle == 0 || p.comm.Cancel(r) == nil {
		return nil
	}
	reqs := [1]Request{*r}
	err := p.comm.Wait(ctx, reqs[:])
	*r = reqs[0]
	return err
}

// A note is a message of at most noteBytes: a request or an announcement about a key.
type note struct {
	op    byte
	tag   int
	count int // opClose: items sent; opGet, opTryGet: largest weight accepted
	name  string
}

const (
	opOpen   byte = 1 + iota // the producer opens a key; its items have the note's tag
	opClose                  // the producer closes a key, after note.count items
	opLeave                  // the producer will open no more keys
	opGet                    // the consumer requests an item with the note's tag, and waits for it
	opTryGet                 // like opGet, but the reply comes at once, even if there is no item
	opState                  // the consumer requests the state of the queue
)

const noteBytes = 16 + maxKeyName

func (n note) write(b []byte) []byte {
	b[0], b[1] = n.op, byte(len(n.name))
	binary.LittleEndian.PutUint16(b[2:], uint16(n.tag))
	binary.LittleEndian.PutUint64(b[8:], uint64(n.count))
	copy(b[16:], n.name)
	return b[:16+len(n.name)]
}

// readNote parses a note. The name is a view of b.
func readNote(b []byte) (n note, name []byte, err error) {
	if len(b) < 16 || len(b) != 16+int(b[1]) {
		return n, nil, fmt.Errorf("a note of %d bytes", len(b))
	}
	n = note{op: b[0], tag: int(binary.LittleEndian.Uint16(b[2:])),
		count: int(int64(binary.LittleEndian.Uint64(b[8:])))}
	return n, b[16:], nil
}
