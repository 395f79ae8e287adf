package spmdtest

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/rlinf/rlinf/spmd"
)

// messages returns the cases that test whether messages arrive whole, in order, at the right member.
func messages() []Case {
	return []Case{
		{"messages of any size arrive whole", anySize},
		{"messages of a sender and tag keep their order", keepOrder},
		{"tags are apart", tagsApart},
		{"everyone to everyone", allToAll},
		{"a member may send to itself", toItself},
		{"large messages may cross", crossing},
		{"a receive may come after its message", lateReceive},
	}
}

// neighbours returns the neighbours of c's rank in the ring of members.
func neighbours(c spmd.Comm) (next, prev int) {
	return (c.Rank() + 1) % c.Size(), (c.Rank() + c.Size() - 1) % c.Size()
}

func anySize(ctx context.Context, w *spmd.World) error {
	ends, err := w.NewComm(world(w), "sizes")
	if err != nil {
		return err
	}
	c := ends[0]
	next, prev := neighbours(c)
	for _, n := range []int{0, 1, 7, 64, 1000, 4095, 4096, 4097, 65536, 1<<20 + 3} {
		for _, mem := range []struct {
			name  string
			alloc func(int) ([]byte, error)
		}{{"World.Alloc", w.Alloc}, {"the Go heap", func(n int) ([]byte, error) { return make([]byte, n), nil }}} {
			out, err := mem.alloc(n)
			if err != nil {
				return err
			}
			const guard = 16
			in, err := mem.alloc(n + guard)
			if err != nil {
				return err
			}
			fill(out, c.Rank())
			fill(in[n:], 77)
			reqs := make([]spmd.Request, 2)
			if reqs[0], err = c.Irecv(in[:n], prev, 3); err != nil {
				return err
			}
			if reqs[1], err = c.Isend(out, next, 3); err != nil {
				return err
			}
			if err := c.Wait(ctx, reqs); err != nil {
				return err
			}
			if reqs[0] != (spmd.Request{N: n}) {
				return fmt.Errorf("%d bytes: the request is %+v", n, reqs[0])
			}
			if err := check(in[:n], prev); err != nil {
				return fmt.Errorf("%d bytes in %s: %w", n, mem.name, err)
			}
			if err := check(in[n:], 77); err != nil {
				return fmt.Errorf("behind %d bytes in %s: %w", n, mem.name, err)
			}
		}
	}
	return nil
}

func keepOrder(ctx context.Context, w *spmd.World) error {
	ends, err := w.NewComm(world(w), "order")
	if err != nil {
		return err
	}
	c := ends[0]
	next, prev := neighbours(c)
	const n = 100
	// small and large messages, from Go memory and Alloc memory: a transport may send them differently
	size := func(i int) int { return 8 + i%5*9000 }
	var sends, recvs []spmd.Request
	bufs := make([][]byte, n)
	for i := range n {
		b := make([]byte, size(i))
		if i%2 == 0 {
			if b, err = w.Alloc(size(i)); err != nil {
				return err
			}
		}
		binary.LittleEndian.PutUint64(b, uint64(i))
		r, err := c.Isend(b, next, 0)
		if err != nil {
			return err
		}
		sends = append(sends, r)
	}
	for i := range n {
		bufs[i] = make([]byte, size(4))
		r, err := c.Irecv(bufs[i], prev, 0)
		if err != nil {
			return err
		}
		recvs = append(recvs, r)
	}
	if err := c.Wait(ctx, recvs); err != nil {
		return err
	}
	for i := range n {
		if got := binary.LittleEndian.Uint64(bufs[i]); got != uint64(i) || recvs[i].N != size(i) {
			return fmt.Errorf("receive %d got message %d of %d bytes", i, got, recvs[i].N)
		}
	}
	return c.Wait(ctx, sends)
}

func tagsApart(ctx context.Context, w *spmd.World) error {
	ends, err := w.NewComm(world(w), "tags")
	if err != nil {
		return err
	}
	c := ends[0]
	next, prev := neighbours(c)
	tags := []int{0, 1, 17, 1000, spmd.MaxTag - 1}
	reqs := make([]spmd.Request, 0, 2*len(tags))
	bufs := make([][1]byte, len(tags))
	for _, t := range tags {
		r, err := c.Isend([]byte{byte(t % 251)}, next, t)
		if err != nil {
			return err
		}
		reqs = append(reqs, r)
	}
	for i := len(tags) - 1; i >= 0; i-- { // receive in the reverse order of the sends
		r, err := c.Irecv(bufs[i][:], prev, tags[i])
		if err != nil {
			return err
		}
		reqs = append(reqs, r)
	}
	if err := c.Wait(ctx, reqs); err != nil {
		return err
	}
	for i, t := range tags {
		if bufs[i][0] != byte(t%251) {
			return fmt.Errorf("tag %d got the message of another", t)
		}
	}
	return nil
}

func allToAll(ctx context.Context, w *spmd.World) error {
	ends, err := w.NewComm(uneven(w), "all to all")
	if err != nil {
		return err
	}
	return exchange(ctx, ends)
}

// exchange sends every member's number to every member. One goroutine uses all Comms of the rank.
func exchange(ctx context.Context, ends []spmd.Comm) error {
	in := make([][]byte, len(ends))
	reqs := make([][]spmd.Request, len(ends))
	for i, c := range ends {
		in[i] = make([]byte, c.Size())
		for m := range c.Size() {
			r, err := c.Irecv(in[i][m:m+1], m, 5)
			if err != nil {
				return err
			}
			s, err := c.Isend([]byte{byte(c.Rank() + 3*m)}, m, 5)
			if err != nil {
				return err
			}
			reqs[i] = append(reqs[i], r, s)
		}
	}
	for i, c := range ends {
		if err := c.Wait(ctx, reqs[i]); err != nil {
			return err
		}
		for m, got := range in[i] {
			if got != byte(m+3*c.Rank()) {
				return fmt.Errorf("member %d of %d got %d from member %d", c.Rank(), c.Size(), got, m)
			}
		}
	}
	return nil
}

func toItself(ctx context.Context, w *spmd.World) error {
	ends, err := w.NewComm([]int{w.Rank()}, fmt.Sprint("self ", w.Rank()))
	if err != nil {
		return err
	}
	c := ends[0]
	for _, n := range []int{0, 10, 1 << 17} {
		out, in := make([]byte, n), make([]byte, n)
		fill(out, n)
		s, err := c.Isend(out, 0, 1)
		if err != nil {
			return err
		}
		r, err := c.Irecv(in, 0, 1)
		if err != nil {
			return err
		}
		if err := c.Wait(ctx, []spmd.Request{s, r}); err != nil {
			return err
		}
		if err := check(in, n); err != nil {
			return err
		}
	}
	return nil
}

func crossing(ctx context.Context, w *spmd.World) error {
	ends, err := w.NewComm(world(w), "crossing")
	if err != nil {
		return err
	}
	c := ends[0]
	const n = 1 << 20
	for m := range c.Size() {
		peer := (m - c.Rank() + c.Size()) % c.Size() // members form pairs; a member may be its own peer
		out, in := make([]byte, n), make([]byte, n)
		fill(out, c.Rank())
		s, err := c.Isend(out, peer, 2) // both members send first
		if err != nil {
			return err
		}
		r, err := c.Irecv(in, peer, 2)
		if err != nil {
			return err
		}
		if err := c.Wait(ctx, []spmd.Request{s, r}); err != nil {
			return err
		}
		if err := check(in, peer); err != nil {
			return fmt.Errorf("from member %d: %w", peer, err)
		}
	}
	return nil
}

func lateReceive(ctx context.Context, w *spmd.World) error {
	ends, err := w.NewComm(world(w), "late")
	if err != nil {
		return err
	}
	c := ends[0]
	next, prev := neighbours(c)
	small, large := make([]byte, 100), make([]byte, 1<<18)
	fill(small, c.Rank())
	fill(large, c.Rank()+1)
	var reqs [3]spmd.Request
	if reqs[0], err = c.Isend(small, next, 1); err != nil {
		return err
	}
	if reqs[1], err = c.Isend(large, next, 2); err != nil {
		return err
	}
	if reqs[2], err = c.Isend(nil, next, 3); err != nil {
		return err
	}
	// The empty message was sent last. When it has arrived, the other messages are in transit, and no
	// receive is posted for them.
	r, err := c.Irecv(nil, prev, 3)
	if err != nil {
		return err
	}
	if err := c.Wait(ctx, []spmd.Request{r}); err != nil {
		return err
	}
	gotSmall, gotLarge := make([]byte, len(small)), make([]byte, len(large))
	r2, err := c.Irecv(gotLarge, prev, 2)
	if err != nil {
		return err
	}
	r1, err := c.Irecv(gotSmall, prev, 1)
	if err != nil {
		return err
	}
	if err := c.Wait(ctx, []spmd.Request{r2, r1}); err != nil {
		return err
	}
	if err := check(gotSmall, prev); err != nil {
		return err
	}
	if err := check(gotLarge, prev+1); err != nil {
		return err
	}
	return c.Wait(ctx, reqs[:])
}
