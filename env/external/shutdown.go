package external

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A shutdown records whether the program was asked to stop. A stop ends all waits for new simulators. If the program
// must stop at once, it waits at most replyLimit for each pending reply. A nil shutdown means that nobody can ask the
// program to stop.
type shutdown struct {
	once  sync.Once
	asked chan struct{} // closed when the program is asked to stop
	since atomic.Int64  // Unix time in ns of the request to stop at once; 0 if there was none
}

const (
	replyLimit   = 5 * time.Second        // maximum wait for a pending reply, if the program must stop at once
	pollInterval = 200 * time.Millisecond // time between two checks for a shutdown
)

// ErrStopRequested is wrapped by the error of each wait that ended because the program was asked to stop.
var ErrStopRequested = errors.New("the program was asked to stop")

// errNotBegun is the error if a request to stop ended a wait for a new simulator.
var errNotBegun = fmt.Errorf("not ready to play before %w", ErrStopRequested)

// errNoReply is the error if a request to stop at once ended a wait for a reply.
var errNoReply = fmt.Errorf("no reply within %v after %w", replyLimit, ErrStopRequested)

func (s *shutdown) request(atOnce bool) {
	if atOnce {
		s.since.CompareAndSwap(0, time.Now().UnixNano())
	}
	s.once.Do(func() { close(s.asked) })
}

// requested reports whether the program was asked to stop.
func (s *shutdown) requested() bool {
	if s == nil {
		return false
	}
	select {
	case <-s.asked:
		return true
	default:
		return false
	}
}

// limitsReplies reports whether the program was asked to stop at once.
func (s *shutdown) limitsReplies() bool { return s != nil && s.since.Load() != 0 }

// pollMillis returns the maximum time between two checks for a shutdown, in milliseconds.
func (s *shutdown) pollMillis() int64 {
	if s == nil {
		return math.MaxInt32
	}
	return pollInterval.Milliseconds()
}

// tooLate returns an error if a shutdown has ended a wait that began at start. If plays is false,
// the wait is for a new simulator, and any shutdown ends it.
func (s *shutdown) tooLate(start, deadline time.Time, plays bool) error {
	switch {
	case !plays && s.requested():
		return errNotBegun
	case time.Now().Before(s.deadline(start, deadline)):
		return nil
	}
	return errNoReply
}

// deadline returns the deadline of a wait for a reply that began at start. It is the given
// deadline, or an earlier one if the program must stop at once.
func (s *shutdown) deadline(start, deadline time.Time) time.Time {
	if !s.limitsReplies() {
		return deadline
	}
	if since := time.Unix(0, s.since.Load()); since.After(start) {
		start = since
	}
	if until := start.Add(replyLimit); until.Before(deadline) {
		return until
	}
	return deadline
}

// RequestStop announces that the program is about to stop. The Hub then neither waits for new
// children nor replaces any. If atOnce is true, it also limits the wait for each pending reply to 5
// s. RequestStop may be called several times and from any goroutine.
func (h *Hub) RequestStop(atOnce bool) { h.shutdown.request(atOnce) }

// StopRequested reports whether RequestStop was called.
func (h *Hub) StopRequested() bool { return h.shutdown.requested() }

// Wait waits for a reply. It is for types outside this package that implement Conn. It calls poll, each time with a
// deadline for that call, until poll returns anything but os.ErrDeadlineExceeded. After the deadline, Wait returns
// os.ErrDeadlineExceeded. If plays is false, the wait is for a new simulator, and RequestStop ends it. RequestStop ends
// any other wait only if atOnce was true. The error then wraps ErrStopRequested.
func (h *Hub) Wait(deadline time.Time, plays bool, poll func(deadline time.Time) error) error {
	for start := time.Now(); ; {
		until := h.shutdown.deadline(start, deadline)
		next := time.Now().Add(pollInterval)
		if until.Before(next) {
			next = until
		}
		err := poll(next)
		if !errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(deadline) {
			return err
		}
		if err := h.shutdown.tooLate(start, deadline, plays); err != nil {
			return err
		}
	}
}
