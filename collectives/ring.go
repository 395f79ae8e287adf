package collectives

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
)

// newRing returns the ring algorithm: the vector is split into P blocks, and each block goes once around the ring
// (Patarasuk and Yuan 2009). For any P the ring sends the fewest bytes possible and loads all links equally. Its
// latency grows linearly with P.
//
//	reduce-scatter    P-1 rounds: send a block, and add the received block         (P-1)(α + S/P·(β+γ))
//	allgather         P-1 rounds: send the block of the previous round             (P-1)(α + S/P·β)
//	allreduce         reduce-scatter, then allgather                               2(P-1)(α + S/P·β) + (P-1)/P·Sγ
func newRing() *algorithm {
	return &algorithm{name: "ring", kinds: of(spmd.AllReduce, spmd.ReduceScatter, spmd.AllGather),
		run: func(ctx context.Context, t *team, c *spmd.Collective) error {
			return ring(ctx, t, c, c.Data)
		}}
}

func ring(ctx context.Context, t *team, c *spmd.Collective, b []byte) error {
	p := t.size()
	next, before := (t.me+1)%p, (t.me-1+p)%p
	if reduces(c.Kind) {
		longest := 0
		for m := range p {
			longest = max(longest, len(t.block(b, c, m)))
		}
		in, err := t.g.scratch(longest)
		if err != nil {
			return err
		}
		for round := 1; round < p; round++ { // a block starts at the member after its owner, and ends at its owner
			out, mine := t.block(b, c, (t.me-round+p)%p), t.block(b, c, (t.me-round-1+p)%p)
			if err := t.exchange(ctx, out, next, in[:len(mine)], before); err != nil {
				return err
			}
			combine(c.DType, c.Op, mine, mine, in[:len(mine)])
		}
	}
	if c.Kind == spmd.ReduceScatter {
		return nil
	}
	for round := range p - 1 {
		out, in := t.block(b, c, (t.me-round+p)%p), t.block(b, c, (t.me-round-1+p)%p)
		if err := t.exchange(ctx, out, next, in, before); err != nil {
			return err
		}
	}
	return nil
}
