//go:build !linux

package local

import "time"

// An alarm is a timer for one goroutine. Another goroutine can end the sleep early by calling ring.
type alarm struct{ bell chan struct{} }

func newAlarm() *alarm { return &alarm{make(chan struct{}, 1)} }

func (a *alarm) tune() {}

// sleep returns after d, or when another goroutine calls ring. An earlier ring counts too. If d is
// negative, there is no time limit.
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
