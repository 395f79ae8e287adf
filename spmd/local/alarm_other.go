//go:build !linux

package local

import "time"

// An alarm wakes one goroutine at a time of its choice, or when it is rung.
type alarm struct{ bell chan struct{} }

func newAlarm() *alarm { return &alarm{make(chan struct{}, 1)} }

func (a *alarm) tune() {}

// sleep returns after d, for ever where that is negative, or when the alarm is or was rung.
func (a *alarm) sleep(d time.Duration) {
	if d < 0 {
		<-a.bell
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-a.bell:
	case <-t.C:
	}
}

func (a *alarm) ring() {
	select {
	case a.bell <- struct{}{}:
	default:
	}
}

func (a *alarm) free() {}
