package external

import (
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"time"
)

// A haste says that the program is to stop soon, so that nobody is waited for as long as else. nil: it never is.
type haste struct {
	once  sync.Once
	began chan struct{} // closed then
	at    time.Time     // once began is closed
}

const (
	lastWait = 5 * time.Second        // for an answer, in haste
	nap      = 200 * time.Millisecond // between looks whether there is haste
)

// errHaste is what comes of waiting in haste.
var errHaste = fmt.Errorf("it is waited for no longer than %v, for the program was asked to stop", lastWait)

func (h *haste) begin() {
	h.once.Do(func() {
		h.at = time.Now()
		close(h.began)
	})
}

// longest returns how many milliseconds may pass between two looks whether there is haste.
func (h *haste) longest() int64 {
	if h == nil {
		return math.MaxInt32
	}
	return nap.Milliseconds()
}

// is reports whether there is haste.
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

// bound returns when a wait that began at start, and would have ended at by, ends.
func (h *haste) bound(start, by time.Time) time.Time {
	if !h.is() {
		return by
	}
	if h.at.After(start) {
		start = h.at
	}
	if until := start.Add(lastWait); until.Before(by) {
		return until
	}
	return by
}

// Hurry says that the program is to stop: no children are waited for to come or replaced any more, and an answer is waited for no longer than some seconds.
func (h *Hub) Hurry() { h.haste.begin() }

// Wait calls look again and again, with the time until which it is to wait, while that gives os.ErrDeadlineExceeded: until by, or in haste for some seconds,
// and then gives errHaste. It is for Links that wait in ways of their own.
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
