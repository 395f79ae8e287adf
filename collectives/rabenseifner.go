package collectives

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
)

// newRabenseifner returns Rabenseifner's allreduce (2004): a reduce-scatter by recursive halving, then an
// allgather by recursive doubling. It sends few bytes in a logarithmic number of rounds. In the first round
// neighbours exchange halves of the vector. In each later round the size halves and the distance doubles.
// P may be any number (see halving).
//
//	allreduce         2(⌊log₂P⌋-1)α + 2Sβ + Sγ, with (P-1)/P·S for S if P is a power of two
//	reduce-scatter    (⌊log₂P⌋-1)α + (P-1)/P·S(β+γ) if P is a power of two, else ⌊log₂P⌋α + (1+1/P)Sβ + Sγ
//
// With four members or more the first round joins groups of four, which saves one round.
func newRabenseifner() *algorithm {
	return &algorithm{name: "rabenseifner", ordered: true, kinds: of(spmd.AllReduce, spmd.ReduceScatter),
		run: func(ctx context.Context, t *team, c *spmd.Collective) error {
			return rabenseifner(ctx, t, c, c.Data)
		}}
}

// rabenseifner reduces b over the team. In an allreduce every member gets the result in b. In a reduce-scatter every
// member gets its block of the result.
func rabenseifner(ctx context.Context, t *team, c *spmd.Collective, b []byte) error {
	h, err := newHalving(t, c, b, false)
	if err != nil {
		return err
	}
	if err := h.reduce(ctx); err != nil {
		return err
	}
	if c.Kind == spmd.AllReduce {
		return h.gather(ctx)
	}
	mine := t.block(b, c, t.me)
	shard := h.part(h.vector, h.dtype, h.levels, t.me) // this member's block, then the block for serve
	if h.before == none {
		shard = shard[copy(mine, shard):]
	}
	return h.serve(ctx, shard, mine)
}
