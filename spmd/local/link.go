package local

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/rlinf/rlinf/spmd"
)

// A Link simulates a network connection, with equal speed in both directions.
type Link struct {
	Latency        time.Duration // until the first byte arrives
	BytesPerSecond float64       // rate of the other bytes; 0: no limit
}

// A Network simulates the nodes of a cluster. The zero Link takes no time.
type Network struct {
	RanksPerNode int  // ranks of a node, which follow each other; the last node may have fewer
	Inside       Link // between every two ranks of a node
	// Between is a node's connection to the network. All its ranks share it, and each direction
	// carries one message after the other. A message occupies the connections of both nodes.
	Between Link
}

// NewLinked is New with a simulated link between every two ranks, as if each rank were on its own
// machine. Messages of one direction use the link one after the other. A message above 4 KiB also
// waits for its receive to be posted. Both requests are done when the link has carried the message.
// So the link shows how much a program computes during communication, which goroutines that copy
// memory cannot show. Shared returns false.
//
// The link waits in the operating system and uses no CPU. For the Go scheduler to run the
// goroutines that it wakes, GOMAXPROCS must exceed the number of computing goroutines. The ranks
// must be closed or aborted. NewLinked panics if n is below 1 or a field of link is negative.
func NewLinked(n int, link Link) []spmd.Transport {
	return newLine(n, &line{perNode: 1, between: link, apart: true})
}

// NewNetwork is like NewLinked, but with the nodes and links of a Network. Ranks of a node share
// memory if RanksPerNode is above 1. NewNetwork panics if n or RanksPerNode is below 1, or a field of
// a link is negative.
func NewNetwork(n int, network Network) []spmd.Transport {
	if network.RanksPerNode < 1 {
		panic(fmt.Sprintf("local: nodes of %d ranks", network.RanksPerNode))
	}
	return newLine(n, &line{perNode: network.RanksPerNode, inside: network.Inside, between: network.Between})
}

func newLine(n int, l *line) []spmd.Transport {
	for _, link := range []Link{l.inside, l.between} {
		if link.Latency < 0 || link.BytesPerSecond < 0 {
			panic(fmt.Sprintf("local: a link of %+v", link))
		}
	}
	ranks := newWorld(n, l)
	l.start, l.alarm = time.Now(), newAlarm()
	l.free = make(map[[2]int]int64)
	l.out, l.in = make([]int64, l.node(n-1)+1), make([]int64, l.node(n-1)+1)
	l.running.Add(1)
	go l.run()
	return ranks
}

// A line simulates all links of a world. Its clock counts nanoseconds and starts at 1.
type line struct {
	perNode         int // ranks of a node
	inside, between Link
	apart           bool // every two nodes have a link of their own
	start           time.Time
	alarm           *alarm
	running         sync.WaitGroup

	mu      sync.Mutex
	free    map[[2]int]int64 // when the link from one rank to another is free again
	out, in []int64          // when each node's connection is free again
	cargo   cargo
	order   uint64
	closed  bool
}

func (l *line) node(rank int) int { return rank / l.perNode }

func (l *line) now() int64 { return int64(time.Since(l.start)) + 1 }

// due puts n bytes on a link and returns their arrival time; 0: at once.
func (l *line) due(from, to, n int) int64 {
	a, b, link := l.node(from), l.node(to), &l.between
	if a == b {
		link = &l.inside
	}
	if *link == (Link{}) {
		return 0
	}
	arrival := int64(link.Latency)
	var lasts int64
	if link.BytesPerSecond > 0 {
		lasts = int64(float64(n) / link.BytesPerSecond * 1e9)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case link.BytesPerSecond == 0:
		arrival += l.now()
	case a == b || l.apart:
		pair := [2]int{from, to}
		l.free[pair] = max(l.free[pair], l.now()) + lasts
		arrival += l.free[pair]
	default:
		end := max(l.out[a], l.in[b], l.now()) + lasts
		l.out[a], l.in[b] = end, end
		arrival += end
	}
	return arrival
}

// hold queues o for completion at due. It returns false if due has passed or the world has ended.
func (l *line) hold(o *op, due int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || due <= l.now() {
		return false
	}
	l.order++
	l.cargo.push(delivery{due, l.order, o})
	if l.cargo[0].op == o {
		l.alarm.ring() // the alarm is set to a later time
	}
	return true
}

// run completes ops at their arrival times.
func (l *line) run() {
	defer l.running.Done()
	runtime.LockOSThread() // never unlocked: tune changes the thread
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
			continue // completing took time: read the clock again
		}
		if next == 0 {
			l.alarm.sleep(-1)
		} else {
			l.alarm.sleep(time.Duration(next - now))
		}
	}
}

// close ends the line. Messages in transit never arrive. A nil line is allowed.
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

// A delivery is an op with its completion time.
type delivery struct {
	due   int64
	order uint64 // order of creation, for equal times
	op    *op
}

// cargo is a binary heap of deliveries, the earliest first. (container/heap would allocate for each
// delivery.)
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
