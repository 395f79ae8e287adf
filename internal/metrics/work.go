package metrics

import (
	"fmt"
	"sync"
	"time"
)

// A counter is how far one worker has come with its long work.
type counter struct {
	mu          sync.Mutex
	what        string
	done, total int
	moved       bool // since the last look
}

// report is what the worker calls. It allocates nothing.
func (c *counter) report(what string, done, total int) {
	c.mu.Lock()
	c.what, c.done, c.total, c.moved = what, done, total, true
	c.mu.Unlock()
}

// look returns the counter, and whether it has moved since the last look.
func (c *counter) look() (what string, done, total int, moved bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	moved, c.moved = c.moved, false
	return c.what, c.done, c.total, moved
}

// work is the long work under way: a phase, and how far the counters of its workers are.
type work struct {
	phase    string    // "": none
	since    time.Time // when the phase began
	counters []*counter
	counted  string    // the work whose counters are shown; "": none
	moved    time.Time // when they were last seen to move
}

// stuck is how long a counter stands still before the elapsed time is shown with it.
const stuck = 2 * time.Second

// Counter returns a function that tells how far a worker has come: done of total, in the work what.
// The counts of all counters with the same work are added up. The function allocates nothing, and any
// goroutine may call it. It is nil of a nil Progress.
func (p *Progress) Counter() func(what string, done, total int) {
	if p == nil {
		return nil
	}
	c := new(counter)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counters = append(p.counters, c)
	return c.report
}

// Phase names the work that begins now. If nothing counts it, its elapsed time is shown.
func (p *Progress) Phase(name string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin(name)
	p.since = p.opts.Now()
	if p.wrote.IsZero() {
		p.wrote = p.since
	}
}

// begin makes name the phase; "": none. Its counters start anew: earlier counts belong to another phase.
func (w *work) begin(name string) {
	w.phase, w.counted = name, ""
	for _, c := range w.counters {
		c.look()
	}
}

// describe says what is under way, and how far it is; "": nothing is. timed adds the elapsed time to
// counters, too.
func (w *work) describe(now time.Time, timed bool) string {
	moving := ""
	for _, c := range w.counters {
		if what, _, _, moved := c.look(); moved && (moving == "" || what == w.phase) {
			moving = what
		}
	}
	if moving != "" {
		w.counted, w.moved = moving, now
	}
	done, total := 0, 0
	for _, c := range w.counters {
		if what, d, t, _ := c.look(); w.counted != "" && what == w.counted {
			done, total = done+d, total+t
		}
	}
	still := now.Sub(w.moved) >= stuck
	switch {
	case w.counted != "" && !(still && done == total): // else the phase goes on with other work
		text := fmt.Sprintf("%s %d/%d", w.counted, done, total)
		if (still || timed) && w.phase != "" {
			text += fmt.Sprintf(" (%s)", Clock(now.Sub(w.since)))
		}
		return text
	case w.phase != "":
		return w.phase + " " + Clock(now.Sub(w.since))
	}
	return ""
}
