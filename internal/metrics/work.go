package metrics

import (
	"fmt"
	"sync"
	"time"
)

// A counter is the progress of one worker in its current work.
type counter struct {
	mu          sync.Mutex
	what        string
	done, total int
	moved       bool // changed since the last call of look
}

// report sets the counter. The worker calls it. It does not allocate.
func (c *counter) report(what string, done, total int) {
	c.mu.Lock()
	c.what, c.done, c.total, c.moved = what, done, total, true
	c.mu.Unlock()
}

// look returns the counter, and whether it has changed since the last call of look.
func (c *counter) look() (what string, done, total int, moved bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	moved, c.moved = c.moved, false
	return c.what, c.done, c.total, moved
}

// work is the current long work: a phase, and the counters of its workers.
type work struct {
	phase    string    // "" if there is none
	since    time.Time // when the phase began
	counters []*counter
	counted  string    // name of the work whose counters are shown, or ""
	moved    time.Time // when a counter was last seen to change
}

// stuck is the time without a change of counters after which the elapsed time is shown too.
const stuck = 2 * time.Second

// Counter returns a function with which one worker reports its progress: the name of the work, and the numbers of
// finished units and of all units. The line shows the sum over all counters of the same work. Any goroutine may call
// the function, which allocates nothing. A nil ProgressLine returns a nil function.
func (p *ProgressLine) Counter() func(what string, done, total int) {
	if p == nil {
		return nil
	}
	c := new(counter)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counters = append(p.counters, c)
	return c.report
}

// Forget resets all counters until their workers report again. Some workers may be in another process now.
func (p *ProgressLine) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.counters {
		c.report("", 0, 0)
	}
	p.counted = ""
}

// Phase names the work that begins now. The elapsed time of the work is shown if no counter reports progress.
func (p *ProgressLine) Phase(name string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.begin(name)
	p.since = time.Now()
	if p.wrote.IsZero() {
		p.wrote = p.since
	}
}

// begin begins a phase. An empty name means no phase. Earlier reports no longer count as changes of counters.
func (w *work) begin(name string) {
	w.phase, w.counted = name, ""
	for _, c := range w.counters {
		c.look()
	}
}

// describe returns a description of the current work and its progress, or "". If timed is true, it adds the elapsed
// time to counters.
func (w *work) describe(now time.Time, timed bool) string {
	moving := ""
	for _, c := range w.counters {
		if what, _, _, moved := c.look(); moved && what != "" && (moving == "" || what == w.phase) {
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
	case w.counted != "" && !(still && done == total): // otherwise the phase does other work now, without a counter
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
