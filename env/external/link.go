package external

import (
	"errors"
	"fmt"
	"time"

	"github.com/rlinf/rlinf/env"
)

// A Link carries frames to a child and back: one of this machine's streams, or messages of MPI. Not
// for concurrent use.
type Link interface {
	// Send sends a frame of these parts, one after the other, before by.
	Send(by time.Time, head, payload []byte) error
	// Receive returns the next frame's header and payload, before by; they are valid until the next
	// call. After a header that accept refuses, with its error, nothing more is read.
	Receive(by time.Time, accept func(head []byte) (payload uint64, err error)) (head, payload []byte, err error)
	// Close ends the conversation.
	Close() error
}

// Split takes a whole message apart, for the Receive of Links that carry messages.
func Split(message []byte, accept func(head []byte) (uint64, error)) (head, payload []byte, err error) {
	if len(message) < headerSize {
		return nil, nil, fmt.Errorf("a message of %d bytes, want at least the %d of a header", len(message), headerSize)
	}
	head, payload = message[:headerSize], message[headerSize:]
	n, err := accept(head)
	if err == nil && n != uint64(len(payload)) {
		err = fmt.Errorf("a message with %d bytes behind its header, which says %d", len(payload), n)
	}
	return head, payload, err
}

// ChildrenOf is Children where cfg has no Greeting and hello is the first message of a child.
func ChildrenOf(hello []byte, cfg env.External, n int) (int, error) {
	_, payload, err := Split(hello, func(head []byte) (uint64, error) {
		h, err := parse(head)
		return h.length, err
	})
	if err != nil {
		return 0, err
	}
	cfg.Greeting = string(payload)
	return Children(cfg, n)
}

// Dismiss tells a child before by that it is to end, and closes the link.
func Dismiss(link Link, by time.Time) error {
	var head [headerSize]byte
	header{kind: closing}.put(head[:])
	return errors.Join(link.Send(by, head[:], nil), link.Close())
}

// Dismisses says whether the header of a frame tells a child that it is to end.
func Dismisses(head []byte) bool {
	h, err := parse(head)
	return err == nil && h.kind == closing
}

// ErrGone is a Link's error where nobody is on the other side any more. What is late is
// os.ErrDeadlineExceeded.
var ErrGone = errors.New("the other side is gone")
