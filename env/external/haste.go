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

// A haste says that the program is to stop: nobody is waited for to come any more, and if it is to
// stop at once nor for an answer as long as else. nil: it never is.
type haste struct {
	once  sync.Once
	began chan struct{} // closed when the program is to stop
	at    atomic.Int64  // since when it is to stop at once, in Unix nanoseconds; 0: it is not
}

const (
	lastWait = 5 * time.Second        // for an answer, where the program is to stop at once
	nap      = 200 * time.Millisecond // between looks whether there is haste
)

// ErrHaste is in the errors of those who were waited for no longer because the program is to stop.
var ErrHaste = errors.New("the program was asked to stop")

// errHaste is what comes of waiting where the program is to stop at once.
var errHaste = fmt.Errorf("it is waited for no longer than %v, for %w", lastWait, ErrHaste)

func (h *haste) begin(atOnce bool) {
	if atOnce {
		h.at.CompareAndSwap(0, time.Now().UnixNano())
	}
	h.once.Do(func() { close(h.began) })
}

// longest returns how many milliseconds may pass between two looks whether there is haste.
func (h *haste) longest() int64 {
	if h == nil {
		return math.MaxInt32
	}
	return nap.Milliseconds()
}

// is reports whether the program is to stop.
func (h *haste) is() bool {
	if h == nil {
		return false
	}
	select {
	case <-h.began:
		return true
	default:
		return false
	}
}

// atOnce reports whether it is to stop at once.
func (h *haste) atOnce() bool { return h != nil && h.at.Load() != 0 }

// bound returns when a wait that began at start, and would have ended at by, ends.
func (h *haste) bound(start, by time.Time) time.Time {
	if !h.atOnce() {
		return by
	}
	if at := time.Unix(0, h.at.Load()); at.After(start) {
		start = at
	}
	if until := start.Add(lastWait); until.Before(by) {
		return until
	}
	return by
}

// Hurry says that the program is to stop: no children are waited for to come or replaced any more.
// Where it is to stop at once, an answer is waited for no longer than some seconds, too. It may be
// called again.
func (h *Hub) Hurry(atOnce bool) { h.haste.begin(atOnce) }

// Hurries reports whether it was called.
func (h *Hub) Hurries() bool { return h.haste.is() }

// Wait calls look again and again, with the time until which it is to wait, while that gives
// os.ErrDeadlineExceeded: until by, or where the program is to stop at once for some seconds, and
// then gives errHaste. It is for Links that wait in ways of their own.
func (h *Hub) Wait(by time.Time, look func(until time.Time) error) error {
	for start := time.Now(); ; {
		until := h.haste.bound(start, by)
		next := time.Now().Add(nap)
		if until.Before(next) {
			next = until
		}
		err := look(next)
		switch {
		case !errors.Is(err, os.ErrDeadlineExceeded) || !time.Now().Before(by):
			return err
		case !time.Now().Before(until):
			return errHaste
		}
	}
}
