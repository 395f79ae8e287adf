package local

import (
	"fmt"
	"sync"
	"time"

	"github.com/rlinf/rlinf/spmd"
)

// A Link simulates a network connection, with equal speed in both directions.
type Link struct {
	Latency        time.Duration // time until the first byte arrives
	BytesPerSecond float64       // transfer rate after the first byte; 0 means no limit
}

// A Network simulates the nodes of a cluster. Messages take no time on a zero Link.
type Network struct {
	RanksPerNode int  // number of consecutive ranks that form a node; the last node may have fewer
	Inside       Link // link between every two ranks of a node
	// Between is the connection of each node to the network. All ranks of the node share it. Each direction
	// carries one message at a time, and a message occupies the connections of both nodes.
	Between Link
}

// NewLinked is like New, but simulates a link between every two ranks, as if each rank were on its own machine. A link
// carries one message at a time in each direction. A message above 4 KiB also waits for its receive to be posted. Both
// requests are done when the link has carried the message. So a program can measure how well it overlaps computation
// and communication. Shared returns false.
//
// The link waits in the operating system and uses no CPU. GOMAXPROCS must exceed the number of computing
// goroutines, so that the Go scheduler can run the goroutines that a link wakes. The caller must close or
// abort the ranks. NewLinked panics if n is below 1 or a field of link is negative.
func NewLinked(n int, link Link) []spmd.Transport {
	return NewLinks(n, func(int, int) Link { return link })
}

// NewLinks is like NewLinked, but with different links. linkOf returns the link for messages from one rank to another.
func NewLinks(n int, linkOf func(from, to int) Link) []spmd.Transport {
	for i := range n * n {
		check(linkOf(i/n, i%n))
	}
	return newLine(n, &line{perNode: 1, link: linkOf, apart: true})
}

// NewNetwork is like NewLinked, but with the nodes and links of a Network. Ranks of a node share
// memory if RanksPerNode is above 1. NewNetwork panics if n or RanksPerNode is below 1, or a field of
// a link is negative.
func NewNetwork(n int, network Network) []spmd.Transport {
	if network.RanksPerNode < 1 {
		panic(fmt.Sprintf("local: nodes of %d ranks", network.RanksPerNode))
	}
	check(network.Inside)
	check(network.Between)
	l := &line{perNode: network.RanksPerNode}
	l.link = func(from, to int) Link {
		if l.node(from) == l.node(to) {
			return network.Inside
		}
		return network.Between
	}
	return newLine(n, l)
}

// check panics if a field of link is negative.
func check(link Link) {
	if link.Latency < 0 || link.BytesPerSecond < 0 {
		panic(fmt.Sprintf("local: a link of %+v", link))
	}
}

func newLine(n int, l *line) []spmd.Transport {
	ranks := newWorld(n, l)
	l.free = make(map[[2]int]int64)
	l.out, l.in = make([]int64, l.node(n-1)+1), make([]int64, l.node(n-1)+1)
	l.schedule = newSchedule(func(o *op) {
		s := o.owner.shared
		s.mu.Lock()
		o.complete()
		s.mu.Unlock()
	})
	return ranks
}

// A line simulates all links of a world. Its schedule completes the requests when their messages arrive.
type line struct {
	*schedule[*op]
	perNode int // ranks of a node
	link    func(from, to int) Link
	apart   bool // every two nodes have a link of their own

	mu      sync.Mutex
	free    map[[2]int]int64 // time at which the link from one rank to another is free again
	out, in []int64          // times at which each node's connection is free again, per direction
}

func (l *line) node(rank int) int { return rank / l.perNode }

// transmit schedules a message of n bytes on a link and returns its arrival time, or 0 if it arrives at once.
func (l *line) transmit(from, to, n int) int64 {
	a, b, link := l.node(from), l.node(to), l.link(from, to)
	if link == (Link{}) {
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

// close ends the line. Messages in transit never arrive. A nil line is allowed.
func (l *line) close() {
	if l != nil {
		l.schedule.close()
	}
}
