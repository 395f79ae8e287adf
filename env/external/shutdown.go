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

// A shutdown records whether the program was asked to stop. It ends waits for new simulators. If the program must stop
// at once, it also limits each pending reply to replyLimit. A nil shutdown means that the program is never asked to
// stop.
type shutdown struct {
	once  sync.Once
	asked chan struct{} // closed when the program is asked to stop
	since atomic.Int64  // when it was asked to stop at once, in Unix nanoseconds; 0 if it was not
}

const (
	replyLimit   = 5 * time.Second        // longest wait for a pending reply, if the program must stop at once
	pollInterval = 200 * time.Millisecond // time between two checks for a shutdown
)

// ErrStopRequested is wrapped by the errors of waits that ended because the program was asked to
// stop.
var ErrStopRequested = errors.New("the program was asked to stop")

// errNotBegun is the error if the program was asked to stop while it waited for a simulator to become ready.
var errNotBegun = fmt.Errorf("not ready to play before %w", ErrStopRequested)

// errNoReply is the error of a pending reply that a shutdown cut short.
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

// pollMillis returns the longest time in milliseconds between two checks for a shutdown.
func (s *shutdown) pollMillis() int64 {
	if s == nil {
		return math.MaxInt32
	}
	return pollInterval.Milliseconds()
}

// tooLate returns the error of a wait that a shutdown has ended, or nil. The wait began at start.
// If plays is false, it is a wait for a new simulator, which a shutdown ends at once.
func (s *shutdown) tooLate(start, by time.Time, plays bool) error {
	switch {
	case !plays && s.requested():
		return errNotBegun
	case time.Now().Before(s.deadline(start, by)):
		return nil
	}
	return errNoReply
}

// deadline returns when to end a wait for a reply. The wait began at start, and its own deadline is
// by.
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

// RequestStop tells the Hub that the program is about to stop. The Hub then waits for no new
// children and replaces none. If atOnce is true, it also limits each pending reply to 5 s.
// RequestStop may be called again, also with another atOnce, and from any goroutine.
func (h *Hub) RequestStop(atOnce bool) { h.shutdown.request(atOnce) }

// StopRequested reports whether RequestStop was called.
func (h *Hub) StopRequested() bool { return h.shutdown.requested() }

// Wait is for Links that wait in their own way. It calls the function look until look returns anything but
// os.ErrDeadlineExceeded. Each call of look must return at the given time. Wait returns os.ErrDeadlineExceeded at the
// deadline by. After RequestStop it returns an ErrStopRequested earlier, if atOnce was true or plays is false. plays
// says whether the simulator plays already.
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
