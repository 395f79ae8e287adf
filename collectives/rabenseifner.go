package collectives

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
)

// newRabenseifner returns Rabenseifner's allreduce (2004): a reduce-scatter by recursive halving, then an
// allgather by recursive doubling. It moves as few bytes as the ring in a logarithmic number of rounds.
// Neighbours exchange the largest halves first. In each later round the size halves and the distance
// doubles. If P is not a power of two, the members are folded first, as in recursive doubling.
//
//	allreduce    2log₂P·α + 2(P-1)/P·Sβ + (P-1)/P·Sγ, and 2(α + Sβ) + Sγ more where P is not a power of two
func newRabenseifner() *algorithm {
	return &algorithm{name: "rabenseifner", kinds: of(spmd.AllReduce),
		run: func(ctx context.Context, t *team, c *spmd.Collective) error {
			return t.folded(ctx, c, c.Data, func(f fold, in []byte) error { return halve(ctx, t, f, c, c.Data, in) })
		}}
}

// halve reduces b over a fold: members at distance 1, 2, 4, … exchange halves of their range until each
// has one reduced shard. Then they gather the shards in the reverse order.
func halve(ctx context.Context, t *team, f fold, c *spmd.Collective, b, in []byte) error {
	e := c.DType.Size()
	lo, hi := 0, len(b)/e
	var bounds [64][2]int // each member's range before each halving
	rounds := 0
	for step := 1; step < f.size; step *= 2 {
		peer := f.member(f.me ^ step)
		bounds[rounds] = [2]int{lo, hi}
		rounds++
		mid := lo + (hi-lo)/2
		theirs := [2]int{mid, hi}
		if f.me&step == 0 {
			hi = mid
		} else {
			theirs, lo = [2]int{lo, mid}, mid
		}
		if err := t.exchange(ctx, b[theirs[0]*e:theirs[1]*e], peer, in[lo*e:hi*e], peer); err != nil {
			return err
		}
		reduceInto(c.DType, c.Op, b[lo*e:hi*e], in[lo*e:hi*e])
	}
	for step := f.size / 2; step > 0; step /= 2 {
		peer := f.member(f.me ^ step)
		rounds--
		before := bounds[rounds]
		theirs := [2]int{before[0], lo}
		if f.me&step == 0 {
			theirs = [2]int{hi, before[1]}
		}
		if err := t.exchange(ctx, b[lo*e:hi*e], peer, b[theirs[0]*e:theirs[1]*e], peer); err != nil {
			return err
		}
		lo, hi = before[0], before[1]
	}
	return nil
}
