package probe

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/spmd"
)

// A NodeProbe has the measurements of the first rank of a node.
type NodeProbe struct {
	Host string
	Copy float64 // bytes per second at which a core copies memory that exceeds its caches
	Core float64 // multiply-adds of a core per second
	// Link is the link to the first node. It is nil for the first node itself, and for nodes after the first 1 +
	// mostLinks.
	Link *planner.Link
}

// mostLinks is the maximum number of links that Sites measures. It limits the time on many nodes.
const mostLinks = 8

// Sites measures nodes, and the links from the first node to others over the transport of c. The members of c are the
// first ranks of all nodes, and every member calls Sites. It returns all sites on member 0, and nil on other members.
func Sites(ctx context.Context, c spmd.Comm) ([]NodeProbe, error) {
	var links []*planner.Link
	for k := 1; k <= min(mostLinks, c.Size()-1); k++ { // before the cores are busy
		switch c.Rank() {
		case 0:
			l, err := ask(ctx, c, k)
			if err != nil {
				return nil, fmt.Errorf("measure the link to rank %d: %w", c.WorldRank(k), err)
			}
			links = append(links, &l)
		case k:
			if err := answer(ctx, c); err != nil {
				return nil, fmt.Errorf("measure the link to rank %d: %w", c.WorldRank(0), err)
			}
		}
	}
	mine := NodeProbe{Host: Host(), Copy: copyRate(), Core: coreRate()}
	if c.Rank() > 0 {
		text, err := json.Marshal(mine)
		if err != nil {
			return nil, err
		}
		return nil, send(ctx, c, text, 0)
	}
	sites := []NodeProbe{mine}
	for k := 1; k < c.Size(); k++ {
		text := make([]byte, 4096)
		n, err := receive(ctx, c, text, k)
		if err != nil {
			return nil, err
		}
		var x NodeProbe
		if err := json.Unmarshal(text[:n], &x); err != nil {
			return nil, fmt.Errorf("rank %d: %w", c.WorldRank(k), err)
		}
		if k <= len(links) {
			x.Link = links[k-1]
		}
		sites = append(sites, x)
	}
	return sites, nil
}

// Network returns the median of the links in sites. It returns false if no link was measured.
func Network(sites []NodeProbe) (planner.Link, bool) {
	var latency, perByte []float64
	for _, x := range sites {
		if x.Link != nil {
			latency, perByte = append(latency, x.Link.Latency), append(perByte, x.Link.PerByte)
		}
	}
	return planner.Link{Latency: Median(latency), PerByte: Median(perByte)}, len(latency) > 0
}

// ask measures the link to a member. It sends items of each size to the member and back, for about 0.1 s per size. The
// first byte of an item is 1 if the item is the last of its size.
func ask(ctx context.Context, c spmd.Comm, peer int) (planner.Link, error) {
	const warm, least, most, budget = 2, 5, 400, 0.1 // warm, least, most: numbers of trips; budget: seconds
	var times [len(sizes)]float64
	for i, size := range sizes {
		b := make([]byte, size)
		var trips []float64
		for begun := time.Now(); b[0] == 0; {
			if n := len(trips); n+1 >= most || n+1 >= least && time.Since(begun).Seconds() > budget {
				b[0] = 1
			}
			start := time.Now()
			if err := send(ctx, c, b, peer); err != nil {
				return planner.Link{}, err
			}
			if _, err := receive(ctx, c, b, peer); err != nil {
				return planner.Link{}, err
			}
			trips = append(trips, time.Since(start).Seconds())
		}
		times[i] = Median(trips[warm:]) / 2
	}
	return linkOf(times), nil
}

// answer echoes the items that ask sends.
func answer(ctx context.Context, c spmd.Comm) error {
	for _, size := range sizes {
		for b := make([]byte, size); b[0] == 0; {
			if _, err := receive(ctx, c, b, 0); err != nil {
				return err
			}
			if err := send(ctx, c, b, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

func send(ctx context.Context, c spmd.Comm, b []byte, to int) error {
	r, err := c.Isend(b, to, 0)
	if err != nil {
		return err
	}
	return c.Wait(ctx, []spmd.Request{r})
}

// receive returns the number of received bytes.
func receive(ctx context.Context, c spmd.Comm, b []byte, from int) (n int, err error) {
	r, err := c.Irecv(b, from, 0)
	if err != nil {
		return 0, err
	}
	list := []spmd.Request{r}
	err = c.Wait(ctx, list)
	return list[0].N, err
}

// coreRate returns the multiply-adds of a core per second. It is the best of several runs, because other programs may
// slow down single runs.
func coreRate() float64 {
	const size, rounds = 1 << 12, 1 << 9
	x := make([]float64, size)
	for i := range x {
		x[i] = 1 / float64(i+1)
	}
	best, sum := math.Inf(1), 0.0
	for range 7 {
		start := time.Now()
		for range rounds {
			for _, v := range x {
				sum = sum*0.5 + v
			}
		}
		best = min(best, time.Since(start).Seconds())
	}
	if math.IsNaN(sum) { // prevents the compiler from removing the sum
		return 0
	}
	return size * rounds / best
}
