package collectives

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
)

// newDirect returns the algorithm "direct", which sends all blocks at the same time, each directly from its
// owner to its destination. If all blocks differ, no algorithm sends fewer bytes.
//
//	gather, scatter     the root receives or sends P-1 messages                      (P-1)α + (P-1)/P·Sβ
//	allgather           every member sends its block to all other members            (P-1)α + (P-1)/P·Sβ
//	alltoall            every member sends a block to every other member             (P-1)α + (P-1)/P·Sβ
//	sendrecv            one message in each direction                                α + Sβ
//
// Member m sends to members m+1, m+2, … in this order, so that no member receives all first messages.
func newDirect() *algorithm {
	return &algorithm{name: "direct", kinds: of(spmd.Gather, spmd.Scatter, spmd.AllGather, spmd.AllToAll,
		spmd.SendReceive), run: runDirect}
}

func runDirect(ctx context.Context, t *team, c *spmd.Collective) error {
	switch c.Kind {
	case spmd.Gather:
		return directGather(ctx, t, c, false)
	case spmd.Scatter:
		return directGather(ctx, t, c, true)
	case spmd.AllGather:
		return directAllGather(ctx, t, c)
	case spmd.AllToAll:
		return directAllToAll(ctx, t, c)
	default:
		return directSendReceive(ctx, t, c)
	}
}

// directGather gathers the blocks at the root, or scatters them from the root if scatter is true.
func directGather(ctx context.Context, t *team, c *spmd.Collective, scatter bool) error {
	toRoot, atRoot := t.send, t.recv
	if scatter {
		toRoot, atRoot = t.recv, t.send
	}
	if t.me != c.Root {
		toRoot(c.Data, c.Root)
		return t.wait(ctx)
	}
	for i := 1; i < t.size(); i++ {
		m := (t.me + i) % t.size()
		atRoot(t.block(c.Data, c, m), m)
	}
	return t.wait(ctx)
}

func directAllGather(ctx context.Context, t *team, c *spmd.Collective) error {
	mine := t.block(c.Data, c, t.me)
	for i := 1; i < t.size(); i++ {
		from, to := (t.me-i+t.size())%t.size(), (t.me+i)%t.size()
		t.recv(t.block(c.Data, c, from), from)
		t.send(mine, to)
	}
	return t.wait(ctx)
}

func directAllToAll(ctx context.Context, t *team, c *spmd.Collective) error {
	e, p, send, sendCounts := c.DType.Size(), t.size(), c.Send, c.SendCounts
	if send == nil {
		var err error
		if send, err = t.g.scratch(len(c.Data)); err != nil {
			return err
		}
		copy(send, c.Data)
	}
	for i := 1; i < p; i++ {
		from, to := (t.me-i+p)%p, (t.me+i)%p
		t.recv(t.block(c.Data, c, from), from)
		t.send(block(send, e, sendCounts, p, to), to)
	}
	copy(t.block(c.Data, c, t.me), block(send, e, sendCounts, p, t.me))
	return t.wait(ctx)
}

func directSendReceive(ctx context.Context, t *team, c *spmd.Collective) error {
	if c.To == t.me && c.From == t.me {
		copy(c.Data, c.Send)
		return nil
	}
	return t.exchange(ctx, c.Send, c.To, c.Data, c.From)
}
