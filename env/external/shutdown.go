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
// must stop at once, it also limits the wait for each pending reply to replyLimit. A nil shutdown means that nobody can
// ask the program to stop.
type shutdown struct {
	once  sync.Once
	asked chan struct{} // closed when the program is asked to stop
	since atomic.Int64  // Unix time in ns of the request to stop at once; 0 if there was none
}

const (
	replyLimit   = 5 * time.Second        // maximum wait for a pending reply, if the program must stop at once
	pollInterval = 200 * time.Millisecond // time between two checks for a shutdown
)

// ErrStopRequested is wrapped by the errors of waits that a request to stop ended.
var ErrStopRequested = errors.New("the program was asked to stop")

// errNotBegun is the error of a wait for a new simulator that a request to stop ended.
var errNotBegun = fmt.Errorf("not ready to play before %w", ErrStopRequested)

// errNoReply is the error of a wait for a reply that a request to stop at once ended.
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

// tooLate returns an error if a shutdown has ended a wait. The wait began at start, and its own
// deadline is by. If plays is false, it is a wait for a new simulator, which any shutdown ends.
func (s *shutdown) tooLate(start, by time.Time, plays bool) error {
	switch {
	case !plays && s.requested():
		return errNotBegun
	case time.Now().Before(s.deadline(start, by)):
		return nil
	}
	return errNoReply
}

// deadline returns the deadline of a wait for a reply that began at start. If the program must stop
// at once, the deadline may be earlier than by.
func (s *shutdown) deadline(start, by time.Time) time.Time {
	if !s.limitsReplies() {
		return by
	}
	if since := time.Unix(0, s.since.Load()); since.After(start) {
		start = since
	}
	if until := start.Add(replyLimit); until.Before(by) {
		return until
	}
	return by
}

// RequestStop announces that the program is about to stop. The Hub then neither waits for new
// children nor replaces any. If atOnce is true, it also limits the wait for each pending reply to 5
// s. RequestStop may be called several times and from any goroutine.
func (h *Hub) RequestStop(atOnce bool) { h.shutdown.request(atOnce) }

// StopRequested reports whether RequestStop was called.
func (h *Hub) StopRequested() bool { return h.shutdown.requested() }

// Wait waits for a reply, for Links outside this package. It calls the function look, each time with a deadline for
// that call, until look returns anything but os.ErrDeadlineExceeded. At the time by, Wait returns
// os.ErrDeadlineExceeded. After RequestStop it returns earlier, with an error that wraps ErrStopRequested, if atOnce
// was true or plays is false. The argument plays is false for a wait for a new simulator.
func (h *Hub) Wait(by time.Time, plays bool, look func(until time.Time) error) error {
	for start := time.Now(); ; {
		until := h.shutdown.deadline(start, by)
		next := time.Now().Add(pollInterval)
		if until.Before(next) {
			next = until
		}
		err := look(next)
		if !errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(by) {
			return err
		}
		if err := h.shutdown.tooLate(start, by, plays); err != nil {
			return err
		}
	}
}
