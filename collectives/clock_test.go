package collectives_test

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// A network carries messages in virtual time, so that a test can count rounds and compare algorithms without noise. A
// member sends its messages one after the other, and receives one after the other.
type network struct {
	latency, perByte float64
	perMessage       float64 // time of the sender for a message, and of the receiver

	mu   sync.Mutex
	sent map[[3]int][]float64 // arrivals by sender, receiver and tag
}

// A clocked is one member's Comm with a virtual clock.
type clocked struct {
	spmd.Comm
	net          *network
	now, out, in float64 // out and in: when this member can send or receive the next message
	expected     []arrival
}

type arrival struct {
	from, tag, bytes int
	at               float64
}

func (c *clocked) Isend(b []byte, to, tag int) (spmd.Request, error) {
	c.now += c.net.perMessage
	c.out = max(c.out, c.now) + float64(len(b))*c.net.perByte
	way := [3]int{c.Rank(), to, tag}
	c.net.mu.Lock()
	c.net.sent[way] = append(c.net.sent[way], c.out+c.net.latency)
	c.net.mu.Unlock()
	return c.Comm.Isend(b, to, tag)
}

func (c *clocked) Irecv(b []byte, from, tag int) (spmd.Request, error) {
	c.expected = append(c.expected, arrival{from, tag, len(b), 0})
	return c.Comm.Irecv(b, from, tag)
}

func (c *clocked) Wait(ctx context.Context, reqs []spmd.Request) error {
	if err := c.Comm.Wait(ctx, reqs); err != nil {
		return err
	}
	c.net.mu.Lock()
	for i := range c.expected {
		a := &c.expected[i]
		way := [3]int{a.from, c.Rank(), a.tag}
		a.at, c.net.sent[way] = c.net.sent[way][0], c.net.sent[way][1:]
	}
	c.net.mu.Unlock()
	slices.SortFunc(c.expected, func(a, b arrival) int { return cmp.Compare(a.at, b.at) })
	c.now = max(c.now, c.out)
	for _, a := range c.expected {
		took := float64(a.bytes) * c.net.perByte
		c.in = max(c.in, a.at-took) + took
		c.now = max(c.now, c.in) + c.net.perMessage
	}
	c.expected = c.expected[:0]
	return nil
}

// took returns how long an operation takes on a network, and the largest number of messages that one member sends.
func took(t *testing.T, net *network, members int, algorithm string,
	op func(ctx context.Context, g *collectives.Group) error) (longest float64, most int64) {
	t.Helper()
	net.sent = map[[3]int][]float64{}
	var mu sync.Mutex
	err := spmd.Run(t.Context(), local.New(members), spmd.Options{Log: t.Output()},
		func(ctx context.Context, w *spmd.World) error {
			ends, err := w.NewComm(w.Ranks(), "clocked")
			if err != nil {
				return err
			}
			end := &clocked{Comm: ends[0], net: net}
			g, err := collectives.New(apart{w}, end, collectives.Options{Algorithm: algorithm})
			if err != nil {
				return err
			}
			if err := op(ctx, g); err != nil {
				return err
			}
			mu.Lock()
			longest, most = max(longest, end.now), max(most, g.Traffic().Messages)
			mu.Unlock()
			return g.Close()
		})
	test.OK(t, err)
	return longest, most
}

// TestSumsTakeFewRounds: the latency of a sum, and the number of messages of a member, grow with the logarithm of the
// number of members.
func TestSumsTakeFewRounds(t *testing.T) {
	if raceDetector {
		return
	}
	members := []int{33, 37, 64, 65, 100, 133}
	for n := 2; n <= 20; n++ {
		members = append(members, n)
	}
	for _, n := range members {
		for _, size := range []int{1, 100, 20_000} {
			sum := func(ctx context.Context, g *collectives.Group) error {
				x := slices.Repeat([]float64{float64(g.Rank())}, size)
				if err := g.Sum64(ctx, x); err != nil {
					return err
				}
				return expect(x, float64(n*(n-1)/2))
			}
			rounds, sent := took(t, &network{latency: 1}, n, collectives.Auto, sum)
			log := bits.Len(uint(n - 1))
			if rounds > float64(max(2, 2*log-1)) || sent > int64(2*log+2) {
				t.Errorf("%d members, %d numbers: %g rounds, %d messages; want at most %d and %d", n, size, rounds,
					sent, max(2, 2*log-1), 2*log+2)
			}
		}
	}
}

// TestManyMembersSumFaster: with the costs of TCP (50 µs, 10 GB/s, and 5 µs of work for a message), a sum of many
// members takes less time than if every member sends to every other. If messages cost hardly any work, sending to
// every other is faster.
func TestManyMembersSumFaster(t *testing.T) {
	if raceDetector {
		return
	}
	for _, perMessage := range []float64{1, 2, 5, 20} {
		net := func() *network { return &network{latency: 50, perByte: 1e-4, perMessage: perMessage} }
		flat, _ := took(t, net(), 64, "direct", func(ctx context.Context, g *collectives.Group) error {
			x, y := make([]float32, 70_016), make([]float32, 70_016)
			if err := g.Run(ctx, collectives.AllToAll(x, nil, y, nil)); err != nil { // to the owners
				return err
			}
			return g.Run(ctx, collectives.AllGather(x, nil)) // and back
		})
		tree, _ := took(t, net(), 64, collectives.Auto, func(ctx context.Context, g *collectives.Group) error {
			return g.Run(ctx, collectives.AllReduce(make([]float32, 70_016), spmd.Sum))
		})
		t.Logf("%g µs a message: %.0f µs, by owners %.0f µs: %.2f times as fast", perMessage, tree, flat, flat/tree)
		if perMessage == 5 && flat < 1.5*tree {
			t.Errorf("%.0f µs, by owners %.0f µs: want less than two thirds of that", tree, flat)
		}
	}
}
