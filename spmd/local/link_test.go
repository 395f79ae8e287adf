package local_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/spmd/spmdtest"
)

func TestLinkedConformance(t *testing.T) {
	for _, n := range []int{2, 5} {
		for _, c := range spmdtest.Cases() {
			if c.Name == "an item does not allocate" {
				continue // this case counts allocations, and a wait for a late message allocates
			}
			t.Run(fmt.Sprintf("%s/%d", c.Name, n), func(t *testing.T) {
				link := local.Link{Latency: 5 * time.Microsecond, BytesPerSecond: 10e9}
				test.OK(t, spmd.Run(t.Context(), local.NewLinked(n, link), spmd.Options{Log: t.Output()},
					c.Run))
			})
		}
	}
}

func TestNetworkConformance(t *testing.T) {
	for _, c := range spmdtest.Cases() {
		if c.Name == "an item does not allocate" {
			continue // for the same reason
		}
		t.Run(c.Name, func(t *testing.T) {
			network := local.Network{RanksPerNode: 2, Between: local.Link{Latency: 5 * time.Microsecond,
				BytesPerSecond: 10e9}}
			test.OK(t, spmd.Run(t.Context(), local.NewNetwork(5, network), spmd.Options{Log: t.Output()},
				c.Run))
		})
	}
}

// linked runs a program on linked ranks, with a communicator of all ranks.
func linked(t *testing.T, n int, link local.Link, program func(ctx context.Context, w *spmd.World, c spmd.Comm) error) {
	t.Helper()
	err := spmd.Run(t.Context(), local.NewLinked(n, link), spmd.Options{Log: t.Output()},
		func(ctx context.Context, w *spmd.World) error {
			ends, err := w.NewComm([]int{0, 1, 2}[:n], "linked")
			if err != nil {
				return err
			}
			return program(ctx, w, ends[0])
		})
	test.OK(t, err)
}

func TestLinkedRanksShareNothing(t *testing.T) {
	linked(t, 3, local.Link{}, func(_ context.Context, w *spmd.World, _ spmd.Comm) error {
		if _, ok := w.Shared(); ok || !slices.Equal(w.Nodes(), []int{0, 1, 2}) ||
			!strings.HasPrefix(w.Describe().Shared, "none: ") {
			return fmt.Errorf("shared memory %v %q, nodes %v", ok, w.Describe().Shared, w.Nodes())
		}
		return nil
	})
}

// Messages take at least the time that latency and bandwidth imply, even if their receives are posted early. A large
// message also keeps its sender waiting.
func TestLinkTakesTime(t *testing.T) {
	link := local.Link{Latency: 20 * time.Millisecond, BytesPerSecond: 10e6}
	for _, n := range []int{0, 4096, 400_000} {
		for _, first := range []string{"send", "receive"} {
			start := time.Now()
			linked(t, 2, link, func(ctx context.Context, w *spmd.World, c spmd.Comm) error {
				least := link.Latency + time.Duration(float64(n)/link.BytesPerSecond*1e9)
				b := make([]byte, n)
				if (w.Rank() == 0) == (first == "receive") {
					// during this time a small message travels, but not a large one without a receive
					time.Sleep(5 * time.Millisecond)
				}
				var r spmd.Request
				var err error
				if w.Rank() == 0 {
					b = append(b[:0], slices.Repeat([]byte{7}, n)...)
					r, err = c.Isend(b, 1, 0)
				} else {
					r, err = c.Irecv(b, 0, 0)
					if done, err := c.Test(&r); done && time.Since(start) < least || err != nil {
						return fmt.Errorf("it is there at once: %v, %v", done, err)
					}
				}
				if err != nil {
					return err
				}
				if err := c.Wait(ctx, []spmd.Request{r}); err != nil {
					return err
				}
				if took := time.Since(start); took < least && (w.Rank() == 1 || n > 4096) {
					return fmt.Errorf("%d bytes, %s first: rank %d had them after %v, want %v at least", n, first,
						w.Rank(), took, least)
				}
				if w.Rank() == 1 && slices.ContainsFunc(b, func(x byte) bool { return x != 7 }) {
					return fmt.Errorf("%d bytes came changed", n)
				}
				return nil
			})
		}
	}
}

// Each direction between two ranks is a line of its own, on which messages queue. So a message behind a large one
// waits, and messages to rank 2, or back from rank 1, do not.
func TestLinesAreApart(t *testing.T) {
	linked(t, 3, local.Link{Latency: time.Millisecond, BytesPerSecond: 0.25e6},
		func(ctx context.Context, w *spmd.World, c spmd.Comm) error {
			large := make([]byte, 1<<20) // takes four seconds on the link
			ranks := []func(context.Context, spmd.Comm, []byte) error{sendsThree, getsInOrder, answers}
			return ranks[w.Rank()](ctx, c, large)
		})
}

// sendsThree sends a large message and a small one to rank 1, and a small one to rank 2. The answer of rank 2 comes
// before the large message has arrived.
func sendsThree(ctx context.Context, c spmd.Comm, large []byte) error {
	var reqs [5]spmd.Request
	var err error
	for i, m := range []struct{ n, to, tag int }{{len(large), 1, 0}, {1, 1, 1}, {1, 2, 2}} {
		if m.n > 1 { // both ranks must have arrived before the message leaves
			if reqs[3], err = c.Irecv(nil, 1, 3); err != nil {
				return err
			}
			if err := c.Wait(ctx, reqs[3:4]); err != nil {
				return err
			}
		}
		if reqs[i], err = c.Isend(large[:m.n], m.to, m.tag); err != nil {
			return err
		}
	}
	if reqs[4], err = c.Irecv(nil, 2, 4); err != nil {
		return err
	}
	for _, want := range []int{4, 0} {
		for got := want + 1; got != want; {
			if got, err = c.WaitAny(ctx, reqs[:]); err != nil || got == 0 && want == 4 {
				return fmt.Errorf("request %d is done before %d: %w", got, want, err)
			}
		}
	}
	return c.Wait(ctx, reqs[:])
}

// getsInOrder receives the large message, then the small one behind it.
func getsInOrder(ctx context.Context, c spmd.Comm, large []byte) error {
	var reqs [3]spmd.Request
	var err error
	if reqs[0], err = c.Irecv(large, 0, 0); err != nil {
		return err
	}
	if reqs[1], err = c.Irecv(large[:1], 0, 1); err != nil {
		return err
	}
	if reqs[2], err = c.Isend(nil, 0, 3); err != nil {
		return err
	}
	for want := range 2 {
		if got, err := c.WaitAny(ctx, reqs[:2]); err != nil || got != want {
			return fmt.Errorf("message %d came, want %d: %w", got, want, err)
		}
	}
	return nil
}

func answers(ctx context.Context, c spmd.Comm, _ []byte) error {
	r, err := c.Irecv(make([]byte, 1), 0, 2)
	if err != nil {
		return err
	}
	if err := c.Wait(ctx, []spmd.Request{r}); err != nil {
		return err
	}
	if r, err = c.Isend(nil, 0, 4); err != nil {
		return err
	}
	return c.Wait(ctx, []spmd.Request{r})
}

// TestNodesShareTheirLinks: if two ranks of a node send to another node at once, this takes the time of all bytes
// together. Messages within a node do not wait.
func TestNodesShareTheirLinks(t *testing.T) {
	network := local.Network{RanksPerNode: 2, Between: local.Link{Latency: time.Millisecond, BytesPerSecond: 10e6}}
	const n = 200_000
	least := 2*20*time.Millisecond + time.Millisecond
	var mu sync.Mutex
	var last, inside time.Duration
	start := time.Now()
	err := spmd.Run(t.Context(), local.NewNetwork(5, network), spmd.Options{Log: t.Output()},
		func(ctx context.Context, w *spmd.World) error {
			if want := []int{0, 0, 1, 1, 2}; !slices.Equal(w.Nodes(), want) {
				return fmt.Errorf("nodes %v, want %v", w.Nodes(), want)
			}
			ends, err := w.NewComm(w.Ranks(), "linked")
			if err != nil || w.Rank() == 4 {
				return err
			}
			c, reqs, other := ends[0], make([]spmd.Request, 2), (w.Rank()+2)%4
			if w.Rank() < 2 {
				if reqs[0], err = c.Isend(make([]byte, n), other, 0); err == nil {
					reqs[1], err = c.Irecv(make([]byte, 1), 1-w.Rank(), 1)
				}
				if err == nil {
					_, err = c.Isend(make([]byte, 1), 1-w.Rank(), 1)
				}
				if err == nil {
					err = c.Wait(ctx, reqs[1:])
				}
				mu.Lock()
				inside = max(inside, time.Since(start))
				mu.Unlock()
			} else {
				reqs[0], err = c.Irecv(make([]byte, n), other, 0)
			}
			if err == nil {
				err = c.Wait(ctx, reqs)
			}
			mu.Lock()
			defer mu.Unlock()
			last = max(last, time.Since(start))
			return err
		})
	test.OK(t, err)
	if last < least || inside >= last {
		t.Errorf("the last bytes came after %v, want at least %v; messages inside the node after %v", last, least,
			inside)
	}
}

// Only ranks of the same node share memory.
func TestNodesShareMemory(t *testing.T) {
	t.Setenv("RLINF_SHM", "")
	ranks := local.NewNetwork(4, local.Network{RanksPerNode: 2})
	s, ok := ranks[2].(spmd.SharedMaker).Shared()
	if !ok {
		t.Fatal("no shared memory")
	}
	for rank, want := range []bool{false, false, true, true} {
		b := test.Must(ranks[rank].Alloc(8))(t)
		share, _ := ranks[rank].(spmd.SharedMaker).Shared()
		at, _ := share.Locate(b)
		if _, err := s.View(rank, at, 8); (err == nil) != want {
			t.Errorf("rank 2 views the memory of rank %d: %v", rank, err)
		}
	}
	for _, r := range ranks {
		test.Check(t, r.Close())
	}
}

func TestNetworkPanics(t *testing.T) {
	for _, network := range []local.Network{{}, {RanksPerNode: 1, Inside: local.Link{Latency: -1}},
		{RanksPerNode: 1, Between: local.Link{BytesPerSecond: -1}}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("no panic for %+v", network)
				}
			}()
			local.NewNetwork(2, network)
		}()
	}
}

// TestTimer: no wait is too short, and closing stop ends a wait.
func TestTimer(t *testing.T) {
	timer := local.NewTimer()
	defer timer.Close()
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			at := time.Now().Add(time.Duration(i%5) * time.Millisecond)
			timer.SleepUntil(at, nil)
			if early := time.Until(at); early > 0 {
				t.Errorf("a wait ended %v too early", early)
			}
		})
	}
	all.Wait()
	stop := make(chan struct{})
	all.Go(func() { timer.SleepUntil(time.Now().Add(time.Hour), stop) })
	close(stop)
	all.Wait()
}

// TestLinksDiffer: the link from one rank to the other is slow, and the link back is not.
func TestLinksDiffer(t *testing.T) {
	const slow = 200 * time.Millisecond
	on := local.NewLinks(2, func(from, _ int) local.Link {
		if from == 1 {
			return local.Link{Latency: slow}
		}
		return local.Link{}
	})
	start := time.Now()
	var had [2]time.Duration // when a rank had received its message
	test.OK(t, spmd.Run(t.Context(), on, spmd.Options{Log: t.Output()}, func(ctx context.Context, w *spmd.World) error {
		ends, err := w.NewComm([]int{0, 1}, "links")
		if err != nil {
			return err
		}
		c, b := ends[0], make([]byte, 1)
		out, err := c.Isend(make([]byte, 1), 1-w.Rank(), 0)
		if err != nil {
			return err
		}
		in, err := c.Irecv(b, 1-w.Rank(), 0)
		if err != nil {
			return err
		}
		if err := c.Wait(ctx, []spmd.Request{in}); err != nil {
			return err
		}
		had[w.Rank()] = time.Since(start)
		return c.Wait(ctx, []spmd.Request{out})
	}))
	if had[0] < slow || had[1] >= had[0] {
		t.Errorf("rank 0 has its message after %v, and rank 1 after %v", had[0], had[1])
	}
}

// A world that ends with an error leaves no goroutine behind.
func TestLinkEndsWithItsWorld(t *testing.T) {
	before := runtime.NumGoroutine()
	for range 10 {
		err := spmd.Run(t.Context(), local.NewLinked(2, local.Link{Latency: time.Hour}), spmd.Options{Log: t.Output()},
			func(ctx context.Context, w *spmd.World) error {
				if w.Rank() == 1 {
					return fmt.Errorf("out of patience")
				}
				ends, err := w.NewComm([]int{0}, "alone")
				if err != nil {
					return err
				}
				<-ctx.Done()
				return ends[0].Close()
			})
		if err == nil {
			t.Fatal("no error")
		}
	}
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, before %d", runtime.NumGoroutine(), before)
		}
	}
}

// BenchmarkLink reports how late small messages and chunks of large ones arrive, compared with the link's times.
func BenchmarkLink(b *testing.B) {
	link := local.Link{Latency: 50 * time.Microsecond, BytesPerSecond: 1e9}
	for _, n := range []int{8, 1 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			err := spmd.Run(context.Background(), local.NewLinked(2, link), spmd.Options{},
				func(ctx context.Context, w *spmd.World) error {
					bare, _, err := spmdtest.RoundTrip(ctx, w, n, b.N)
					if w.Rank() == 0 {
						ideal := 2 * (float64(link.Latency) + float64(n)/link.BytesPerSecond*1e9)
						b.ReportMetric(float64(bare.Nanoseconds())-ideal, "late-ns/op")
					}
					return err
				})
			test.OK(b, err)
		})
	}
}
