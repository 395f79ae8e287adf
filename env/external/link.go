package external

import (
	"errors"
	"fmt"
	"time"

	"github.com/rlinf/rlinf/env"
)

// A Link carries frames to a child and back, by a stream of this machine or by MPI messages. Not
// for concurrent use.
type Link interface {
	// Send sends a frame that consists of head and payload. by is the deadline.
	Send(by time.Time, head, payload []byte) error
	// Receive returns the next frame's header and payload. They are valid until the next call. by is the deadline.
	// accept gets the header and returns the payload's size. An error of accept ends Receive before the payload
	// is read.
	Receive(by time.Time, accept func(head []byte) (payload uint64, err error)) (head, payload []byte, err error)
	// Close ends the conversation.
	Close() error
}

// Split divides a message into header and payload, for the Receive of Links that carry messages.
func Split(message []byte, accept func(head []byte) (uint64, error)) (head, payload []byte, err error) {
	if len(message) < headerSize {
		return nil, nil, fmt.Errorf("a message of %d bytes, expected at least the %d of a header", len(message),
			headerSize)
	}
	head, payload = message[:headerSize], message[headerSize:]
	n, err := accept(head)
	if err == nil && n != uint64(len(payload)) {
		err = fmt.Errorf("a message with %d bytes behind its header, which says %d", len(payload), n)
	}
	return head, payload, err
}

// ChildrenOf is Children for a cfg without Greeting. It takes the greeting from hello, the first message of a child.
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

// EnvsPerChild returns the number of environments of each child of cfg, whose Greeting is known. It returns 0 if a
// child can play any number.
func EnvsPerChild(cfg env.External) (int, error) {
	g, err := readGreeting([]byte(cfg.Greeting))
	if err != nil {
		return 0, err
	}
	return g.NumEnvs, nil
}

// Dismiss sends CLOSE to a child, with the deadline by, and closes the link.
func Dismiss(link Link, by time.Time) error {
	var head [headerSize]byte
	header{kind: closing}.put(head[:])
	return errors.Join(link.Send(by, head[:], nil), link.Close())
}

// Dismisses reports whether head is the header of a CLOSE.
func Dismisses(head []byte) bool {
	h, err := parse(head)
	return err == nil && h.kind == closing
}

// Plays reports whether head is the header of a request to a simulator that has reported READY.
func Plays(head []byte) bool {
	if len(head) < headerSize {
		return false
	}
	h, err := parse(head)
	return err == nil && h.kind != config
}

// ErrGone is a Link's error after the other side has closed the connection or ended. A timeout is
// os.ErrDeadlineExceeded instead.
var ErrGone = errors.New("the other side is gone")

// Children returns how many children play n environments of cfg, whose Greeting is known. It
// returns an error if n is not a multiple of the number that each child plays.
func Children(cfg env.External, n int) (int, error) {
	g, err := readGreeting([]byte(cfg.Greeting))
	if err != nil {
		return 0, err
	}
	return g.children(cfg.N, n)
}

// children implements Children. The argument asked is external.n.
func (g *greeting) children(asked, n int) (int, error) {
	switch own := g.NumEnvs; {
	case own == 0:
		return min(max(asked, 1), n), nil
	case n%own != 0:
		return 0, fmt.Errorf("%d environments for children of %s, each of which plays %d: expected a multiple", n,
			g.Name, own)
	default:
		return n / own, nil
	}
}
