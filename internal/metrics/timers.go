package metrics

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"
)

// Timers add up the time that the phases of a step take, on any number of goroutines. All ranks make them of the same phases, so that
// what Take gives can be reduced over ranks.
type Timers struct {
	now    func() time.Time
	phases []string
	names  []string
	total  []atomic.Int64
}

// NewTimers makes timers of phases, which read the clock now.
func NewTimers(now func() time.Time, phases ...string) *Timers {
	t := &Timers{now: now, phases: phases, total: make([]atomic.Int64, len(phases))}
	for _, p := range phases {
		t.names = append(t.names, "time/"+p)
	}
	return t
}

// Start begins a piece of a phase; Stop of what it returns ends it. A phase that NewTimers was not given panics.
func (t *Timers) Start(phase string) Timer {
	i := slices.Index(t.phases, phase)
	if i < 0 {
		panic(fmt.Sprintf("metrics: no timer %q among %v", phase, t.phases))
	}
	return Timer{&t.total[i], t.now, t.now()}
}

// A Timer is a running piece of a phase.
type Timer struct {
	total *atomic.Int64
	now   func() time.Time
	began time.Time
}

// Stop adds the time since Start, and returns it.
func (t Timer) Stop() time.Duration {
	d := t.now().Sub(t.began)
	t.total.Add(int64(d))
	return d
}

// Names returns time/<phase> of every phase, in the order given.
func (t *Timers) Names() []string { return t.names }

// Take appends the seconds spent in each phase since the last Take to dst, and starts anew.
func (t *Timers) Take(dst []float64) []float64 {
	for i := range t.total {
		dst = append(dst, time.Duration(t.total[i].Swap(0)).Seconds())
	}
	return dst
}
