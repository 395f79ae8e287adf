package spmdtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/rlinf/rlinf/spmd"
)

// requests returns the cases that test waiting, testing and cancelling, and arguments that must be rejected.
func requests() []Case {
	return []Case{
		{"WaitAny returns each request once", waitAny},
		{"Test does not wait", test},
		{"a receive can be cancelled", cancel},
		{"a message too long for its buffer is an error and no overrun", truncation},
		{"zero requests are done", zeroRequests},
		{"a wait ends with its context", contextEnds},
		{"peers and tags out of range are refused", outOfRange},
		{"closing names the requests nobody waited for", closeNames},
		{"a round trip does not allocate", noAllocation},
	}
}

func waitAny(ctx context.Context, w *spmd.World) error {
	ends, err := w.NewComm(world(w), "wait any")
	if err != nil {
		return err
	}
	c := ends[0]
	in := make([]byte, c.Size())
	recvs, sends := make([]spmd.Request, c.Size()), make([]spmd.Request, c.Size())
	for m := range c.Size() {
		if recvs[m], err = c.Irecv(in[m:m+1], m, 0); err != nil {
			return err
		}
	}
	for m := range c.Size() {
		if sends[m], err = c.Isend([]byte{byte(c.Rank() + 1)}, m, 0); err != nil {
			return err
		}
	}
	seen := make([]bool, c.Size())
	for range c.Size() {
		i, err := c.WaitAny(ctx, recvs)
		if err != nil {
			return err
		}
		if i < 0 || seen[i] || recvs[i].Handle != 0 || in[i] != byte(i+1) {
			return fmt.Errorf("wait for any returned %d, seen %v, request %+v, data %v", i, seen, recvs[max(i, 0)], in)
		}
		seen[i] = true
	}
	if i, err := c.WaitAny(ctx, recvs); i != -1 || err != nil {
		return fmt.Errorf("wait for any of no open requests returned %d, %v", i, err)
	}
	return c.Wait(ctx, sends)
}

// goAhead permits the previous member of the ring to send, by an empty message. Then it waits for the
// permission of the next member.
func goAhead(ctx context.Context, c spmd.Comm) error {
	const tag = spmd.MaxTag - 1
	next, prev := neighbours(c)
	var reqs [2]spmd.Request
	var err error
	if reqs[0], err = c.Isend(nil, prev, tag); err != nil {
		return err
	}
	if reqs[1], err = c.Irecv(nil, next, tag); err != nil {
		return err
	}
	return c.Wait(ctx, reqs[:])
}

func test(ctx context.Context, w *spmd.World) error {
	ends, err := w.NewComm(world(w), "test")
	if err != nil {
		return err
	}
	c := ends[0]
	next, prev := neighbours(c)
	in := make([]byte, 4)
	r, err := c.Irecv(in, prev, 0)
	if err != nil {
		return err
	}
	if ok, err := c.Test(&r); ok || err != nil { // prev sends only after the go-ahead
		return fmt.Errorf("a receive without a message tests as %v, %v", ok, err)
	}
	if err := goAhead(ctx, c); err != nil {
		return err
	}
	s, err := c.Isend([]byte{1, 2, 3}, next, 0)
	if err != nil {
		return err
	}
	for ok := false; !ok; runtime.Gosched() {
		if ok, err = c.Test(&r); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if r != (spmd.Request{N: 3}) || in[2] != 3 {
		return fmt.Errorf("the request is %+v, the buffer %v", r, in)
	}
	return c.Wait(ctx, []spmd.Request{s})
}

func cancel(ctx context.Context, w *spmd.World) error {
	ends, err := w.NewComm(world(w), "cancel")
	if err != nil {
		return err
	}
	c := ends[0]
	next, prev := neighbours(c)
	taken := make([]byte, 8)
	r, err := c.Irecv(taken, prev, 4)
	if err != nil {
		return err
	}
	if err := c.Cancel(&r); err != nil {
		return err
	}
	if r.Handle != 0 {
		return fmt.Errorf("a cancelled request is %+v", r)
	}
	if err := c.Cancel(&r); err != nil {
		return fmt.Errorf("cancel of a zero request: %w", err)
	}
	if err := goAhead(ctx, c); err != nil {
		return err
	}
	// The tag still works, and the buffer of the cancelled receive does not change.
	in := make([]byte, 8)
	var reqs [2]spmd.Request
	if reqs[0], err = c.Irecv(in, prev, 4); err != nil {
		return err
	}
	if reqs[1], err = c.Isend([]byte("12345678"), next, 4); err != nil {
		return err
	}
	if err := c.Wait(ctx, reqs[:]); err != nil {
		return err
	}
	if string(in) != "12345678" || string(taken) != string(make([]byte, 8)) {
		return fmt.Errorf("received %q, in the buffer taken back %q", in, taken)
	}
	return nil
}

func truncation(ctx context.Context, w *spmd.World) error {
	for _, n := range []int{100, 100_000} {
		ends, err := w.NewComm(world(w), "truncation")
		if err != nil {
			return err
		}
		c := ends[0]
		next, prev := neighbours(c)
		in := make([]byte, n)
		fill(in, 9)
		r, err := c.Irecv(in[:n-10], prev, 0)
		if err != nil {
			return err
		}
		s, err := c.Isend(make([]byte, n), next, 0)
		if err != nil {
			return err
		}
		if err := c.Wait(ctx, []spmd.Request{r}); err == nil {
			return fmt.Errorf("%d bytes fit into a buffer of %d", n, n-10)
		}
		for i := n - 10; i < n; i++ {
			if in[i] != byte(i*31+i>>8+9*101) {
				return fmt.Errorf("byte %d behind the buffer was written", i)
			}
		}
		if err := c.Wait(ctx, []spmd.Request{s}); err != nil {
			return err
		}
	}
	return nil
}

func zeroRequests(ctx context.Context, w *spmd.World) error {
	ends, err := w.NewComm(world(w), "zero")
	if err != nil {
		return err
	}
	c := ends[0]
	if err := c.Wait(ctx, make([]spmd.Request, 3)); err != nil {
		return err
	}
	if err := c.Wait(ctx, nil); err != nil {
		return err
	}
	if ok, err := c.Test(new(spmd.Request)); !ok || err != nil {
		return fmt.Errorf("the zero request tests as %v, %v", ok, err)
	}
	return nil
}

func contextEnds(ctx context.Context, w *spmd.World) error {
	ends, err := w.NewComm(world(w), "context")
	if err != nil {
		return err
	}
	c := ends[0]
	_, prev := neighbours(c)
	cause := errors.New("enough")
	sub, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	r, err := c.Irecv(make([]byte, 1), prev, 0)
	if err != nil {
		return err
	}
	w.Go("stopper", func() error { stop(cause); return nil })
	reqs := []spmd.Request{r}
	if err := c.Wait(sub, reqs); !errors.Is(err, cause) {
		return fmt.Errorf("the wait returned %v", err)
	}
	if _, err := c.WaitAny(sub, reqs); !errors.Is(err, cause) {
		return fmt.Errorf("the wait for any returned %v", err)
	}
	return c.Cancel(&reqs[0])
}

func outOfRange(_ context.Context, w *spmd.World) error {
	ends, err := w.NewComm(world(w), "range")
	if err != nil {
		return err
	}
	c := ends[0]
	for _, bad := range []struct{ peer, tag int }{{-1, 0}, {c.Size(), 0}, {0, -1}, {0, spmd.MaxTag}} {
		if _, err := c.Isend(nil, bad.peer, bad.tag); err == nil {
			return fmt.Errorf("a send to %d with tag %d was taken", bad.peer, bad.tag)
		}
		if _, err := c.Irecv(nil, bad.peer, bad.tag); err == nil {
			return fmt.Errorf("a receive from %d with tag %d was taken", bad.peer, bad.tag)
		}
	}
	return nil
}

func closeNames(ctx context.Context, w *spmd.World) error {
	ends, err := w.NewComm(world(w), "leak")
	if err != nil {
		return err
	}
	c := ends[0]
	next, prev := neighbours(c)
	r, err := c.Irecv(make([]byte, 1), prev, 7)
	if err != nil {
		return err
	}
	s, err := c.Isend([]byte{1}, next, 7)
	if err != nil {
		return err
	}
	if err := c.Wait(ctx, []spmd.Request{s}); err != nil {
		return err
	}
	if err := c.Close(); err == nil {
		return fmt.Errorf("closing with %+v open gave no error", r)
	}
	return nil
}

func noAllocation(ctx context.Context, w *spmd.World) error {
	ends, err := w.NewComm(world(w), "allocation")
	if err != nil {
		return err
	}
	c := ends[0]
	next, prev := neighbours(c)
	out, err := w.Alloc(20_000)
	if err != nil {
		return err
	}
	in, err := w.Alloc(20_000)
	if err != nil {
		return err
	}
	reqs := make([]spmd.Request, 2)
	round := func(n int) error {
		var err error
		if reqs[0], err = c.Irecv(in[:n], prev, 0); err != nil {
			return err
		}
		if reqs[1], err = c.Isend(out[:n], next, 0); err != nil {
			return err
		}
		return c.Wait(ctx, reqs)
	}
	const rounds = 300
	var before, after runtime.MemStats
	for _, n := range []int{100, 20_000} {
		for i := range 2 * rounds {
			if i == rounds {
				runtime.ReadMemStats(&before)
			}
			if err := round(n); err != nil {
				return err
			}
		}
		runtime.ReadMemStats(&after)
		// The runtime and other ranks of the process may still allocate a little.
		if got := after.Mallocs - before.Mallocs; got > rounds/2 {
			return fmt.Errorf("%d rounds of %d bytes allocated %d times", rounds, n, got)
		}
	}
	return nil
}
