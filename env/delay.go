package env

import (
	"runtime"
	"time"

	"github.com/rlinf/rlinf/tensor"
)

// Delay makes steps last, to stand for a slow simulator that computes elsewhere: the caller waits, the core is free.
type Delay struct {
	wrapper
	per time.Duration
}

var (
	_ Vec   = (*Delay)(nil)
	_ Saver = (*Delay)(nil)
)

// NewDelay wraps v: a Step with chunks of K actions lasts at least K·per.
func NewDelay(v Vec, per time.Duration) *Delay { return &Delay{wrapper{v}, per} }

// Step takes the actions of one chunk; see Vec.
func (w *Delay) Step(action tensor.Dict, seeds []uint64, out *Step) error {
	end := time.Now()
	if err := w.Vec.Step(action, seeds, out); err != nil {
		return err
	}
	waitUntil(end.Add(w.per * time.Duration(out.Reward.Dim(1))))
	return nil
}

// waitUntil sleeps, and spins for the last part: a sleep ends up to a millisecond late.
func waitUntil(t time.Time) {
	const late = 300 * time.Microsecond
	if left := time.Until(t); left > late {
		time.Sleep(left - late)
	}
	for time.Now().Before(t) {
		runtime.Gosched()
	}
}
