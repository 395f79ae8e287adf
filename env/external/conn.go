package external

import (
	"errors"
	"fmt"
	"time"

	"github.com/rlinf/rlinf/env"
)

// A Conn carries frames to a child and back, through a stream or MPI messages. It is not safe for
// concurrent use.
type Conn interface {
	// Send sends a frame with the given header and payload. After the deadline it returns os.ErrDeadlineExceeded.
	Send(deadline time.Time, head, payload []byte) error
	// Receive returns the header and the payload of the next frame, which are valid until the next call. It calls
	// accept to validate the header and to get the payload's size. If accept returns an error, Receive returns this
	// error and does not read the payload.
	Receive(deadline time.Time, accept func(head []byte) (payload uint64, err error)) (head, payload []byte, err error)
	// Close closes the connection.
	Close() error
}

// Split splits a message into header and payload. It is for a Conn that receives each frame as one message.
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

// ChildrenOf is like Children, but takes the greeting from hello, the first message of a child.
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

// EnvsPerChild returns the number of environments that each child of cfg plays, or 0 if a child can play any number. It
// needs cfg.Greeting.
func EnvsPerChild(cfg env.External) (int, error) {
	g, err := readGreeting([]byte(cfg.Greeting))
	if err != nil {
		return 0, err
	}
	return g.NumEnvs, nil
}

// Dismiss sends CLOSE to a child before the deadline, and closes the link.
func Dismiss(link Conn, deadline time.Time) error {
	var head [headerSize]byte
	header{kind: closing}.put(head[:])
	return errors.Join(link.Send(deadline, head[:], nil), link.Close())
}

// Dismisses reports whether head is the header of a CLOSE.
func Dismisses(head []byte) bool {
	h, err := parse(head)
	return err == nil && h.kind == closing
}

// Plays reports whether head is the header of a request that follows CONFIG.
func Plays(head []byte) bool {
	if len(head) < headerSize {
		return false
	}
	h, err := parse(head)
	return err == nil && h.kind != config
}

// ErrGone is the error of a Conn if the other side has closed the connection or exited. The error
// of a timeout is os.ErrDeadlineExceeded.
var ErrGone = errors.New("the other side is gone")

// Saves reports whether the simulators of cfg save their state. It needs cfg.Greeting.
func Saves(cfg env.External) bool {
	g, err := readGreeting([]byte(cfg.Greeting))
	return err == nil && g.State > 0
}

// HasExpert reports whether the simulators of cfg have an expert. It needs cfg.Greeting.
func HasExpert(cfg env.External) bool {
	g, err := readGreeting([]byte(cfg.Greeting))
	return err == nil && g.Expert
}

// IsRobot reports whether the simulators of cfg are robots, which act in real time. It needs cfg.Greeting.
func IsRobot(cfg env.External) bool {
	g, err := readGreeting([]byte(cfg.Greeting))
	return err == nil && g.Period > 0
}

// Children returns the number of children for n environments of cfg. It needs cfg.Greeting. It
// returns an error if each child plays a fixed number of environments and n is not a multiple of
// this number.
func Children(cfg env.External, n int) (int, error) {
	g, err := readGreeting([]byte(cfg.Greeting))
	if err != nil {
		return 0, err
	}
	return g.children(cfg.N, n)
}

// children implements Children for the configured number of children, external.n.
func (g *greeting) children(configured, n int) (int, error) {
	switch own := g.NumEnvs; {
	case own == 0:
		return min(max(configured, 1), n), nil
	case n%own != 0:
		return 0, fmt.Errorf("%d environments for children of %s, each of which plays %d: expected a multiple", n,
			g.Name, own)
	default:
		return n / own, nil
	}
}
