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
	BytesPerSecond float64       // rate of the other bytes; 0 means no limit
}

// A Network simulates the nodes of a cluster. The zero Link takes no time.
type Network struct {
	RanksPerNode int  // number of consecutive ranks that form a node; the last node may have fewer
	Inside       Link // link between every two ranks of a node
	// Between is a node's connection to the network. All its ranks share it, and each direction
	// carries one message after the other. A message occupies the connections of both nodes.
	Between Link
}

// NewLinked is New with a simulated link between every two ranks, as if each rank were on its own machine. Messages of
// one direction use the link one after the other. A message above 4 KiB also waits for its receive to be posted. Both
// requests are done when the link has carried the message. So the link shows how much a program computes during
// communication. Goroutines that copy memory could not show this. Shared returns false.
//
// The link waits in the operating system and uses no CPU. For the Go scheduler to run the
// goroutines that it wakes, GOMAXPROCS must exceed the number of computing goroutines. The ranks
// must be closed or aborted. NewLinked panics if n is below 1 or a field of link is negative.
func NewLinked(n int, link Link) []spmd.Transport {
	return NewLinks(n, func(int, int) Link { return link })
}

// NewLinks is NewLinked with different links: the function link returns the link that carries messages from one rank to
// another.
func NewLinks(n int, link func(from, to int) Link) []spmd.Transport {
	for i := range n * n {
		check(link(i/n, i%n))
	}
	return newLine(n, &line{perNode: 1, link: link, apart: true})
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
	free    map[[2]int]int64 // when the link from one rank to another is free again
	out, in []int64          // when each node's connection is free again
}

func (l *line) node(rank int) int { return rank / l.perNode }

// due puts n bytes on a link and returns their arrival time. The time 0 means at once.
func (l *line) due(from, to, n int) int64 {
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
