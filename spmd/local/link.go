package local

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/rlinf/rlinf/spmd"
)

// A Link is what lies between two ranks: one line for each direction.
type Link struct {
	Latency        time.Duration // until the first byte has come
	BytesPerSecond float64       // how fast the others follow; 0: at once
}

// NewLinked is New with a link between every two ranks, as if each were on a machine of its own. A
// message sets out when the ones before it in its direction are through. One larger than 4 KiB also
// waits until its receive has been posted. It is there once the link has carried it. So it shows
// how far a program computes while its messages are under way, which goroutines that copy memory
// cannot. Shared is false.
//
// The link waits in the operating system, not on a core, except for the Go scheduler to run what it
// wakes there must be more of GOMAXPROCS than goroutines that compute. Its ranks must be closed or
// aborted. It panics when n is below 1, or link is negative.
func NewLinked(n int, link Link) []spmd.Transport {
	if link.Latency < 0 || link.BytesPerSecond < 0 {
		panic(fmt.Sprintf("local: a link of %+v", link))
	}
	l := &line{link: link, ranks: n, start: time.Now(), alarm: newAlarm()}
	ranks := newWorld(n, l)
	l.free = make([]int64, n*n)
	l.running.Add(1)
	go l.run()
	return ranks
}

// A line is what carries the messages of a world. Its clock counts nanoseconds from 1 on.
type line struct {
	link    Link
	ranks   int
	start   time.Time
	alarm   *alarm
	running sync.WaitGroup

	mu     sync.Mutex
	free   []int64 // when the direction from rank a to rank b, number a·ranks+b, is free again
	cargo  cargo
	order  uint64
	closed bool
}

func (l *line) now() int64 { return int64(time.Since(l.start)) + 1 }

// due sends n bytes on their way, and returns when they will have come.
func (l *line) due(from, to, n int) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	free := &l.free[from*l.ranks+to]
	*free = max(*free, l.now())
	if l.link.BytesPerSecond > 0 {
		*free += int64(float64(n) / l.link.BytesPerSecond * 1e9)
	}
	return *free + int64(l.link.Latency)
}

// hold keeps o from being done before due; false if that has passed, or the world has ended.
func (l *line) hold(o *op, due int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || due <= l.now() {
		return false
	}
	l.order++
	l.cargo.push(delivery{due, l.order, o})
	if l.cargo[0].op == o {
		l.alarm.ring() // it was set to a later time
	}
	return true
}

// run completes what has come.
func (l *line) run() {
	defer l.running.Done()
	runtime.LockOSThread() // for good: the thread is set to wake up on time
	l.alarm.tune()
	var come []*op
	for {
		l.mu.Lock()
		if l.closed {
			l.alarm.free()
			l.mu.Unlock()
			return
		}
		now, next := l.now(), int64(0)
		for len(l.cargo) > 0 && l.cargo[0].due <= now {
			come = append(come, l.cargo.pop().op)
		}
		if len(l.cargo) > 0 {
			next = l.cargo[0].due
		}
		l.mu.Unlock()
		for _, o := range come {
			s := o.owner.shared
			s.mu.Lock()
			o.complete()
			s.mu.Unlock()
		}
		if len(come) > 0 {
			come = come[:0]
			continue // that took time
		}
		if next == 0 {
			l.alarm.sleep(-1)
		} else {
			l.alarm.sleep(time.Duration(next - now))
		}
	}
}

// close ends the line; what it still holds never comes. A nil line has nothing to end.
func (l *line) close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		l.alarm.ring()
	}
	l.mu.Unlock()
	l.running.Wait()
}

// A delivery is an op that will be done.
type delivery struct {
	due   int64
	order uint64 // among those of the same time
	op    *op
}

// cargo is a binary heap of deliveries, the next one first. (container/heap would allocate for
// each.)
type cargo []delivery

func (c cargo) before(i, j int) bool {
	return c[i].due < c[j].due || c[i].due == c[j].due && c[i].order < c[j].order
}

func (c *cargo) push(d delivery) {
	*c = append(*c, d)
	for h, i := *c, len(*c)-1; i > 0 && h.before(i, (i-1)/2); i = (i - 1) / 2 {
		h[i], h[(i-1)/2] = h[(i-1)/2], h[i]
	}
}

func (c *cargo) pop() delivery {
	h := *c
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], delivery{}
	h = h[:last]
	*c = h
	for i := 0; ; {
		child := 2*i + 1
		if child+1 < last && h.before(child+1, child) {
			child++
		}
		if child >= last || !h.before(child, i) {
			return first
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
