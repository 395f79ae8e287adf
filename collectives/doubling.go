package collectives

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
)

// newDoubling returns recursive doubling: groups of members exchange their sums and join, until one group of all
// members has the sum (Thakur, Rabenseifner and Gropp 2005). Here a round joins four groups. Only the last round may
// join two. If P is not a power of two, the members beyond the largest power of two below P reduce among themselves,
// and get the result in one more message (see halving).
//
//	allreduce    ½⌊log₂P⌋(α + 3Sβ + 3Sγ), and α + Sβ more where P is not a power of two
//	barrier      ⌈log₂P⌉α: the dissemination barrier of Hensgen, Finkel and Manber 1988, for any P
func newDoubling() *algorithm {
	return &algorithm{name: "doubling", ordered: true, kinds: of(spmd.Barrier, spmd.AllReduce), run: runDoubling}
}

func runDoubling(ctx context.Context, t *team, c *spmd.Collective) error {
	if c.Kind == spmd.Barrier {
		return t.dissemination(ctx)
	}
	return doubling(ctx, t, c, c.Data)
}

// doubling reduces b to every member.
func doubling(ctx context.Context, t *team, c *spmd.Collective, b []byte) error {
	h, err := newHalving(t, c, b, true)
	if err != nil {
		return err
	}
	if err := h.reduce(ctx); err != nil {
		return err
	}
	return h.serve(ctx, b, b)
}

// dissemination is a barrier. In round k every member tells the member at distance 2^k which members have arrived: the
// sender, and all members that it has heard of.
func (t *team) dissemination(ctx context.Context) error {
	for step := 1; step < t.size(); step *= 2 {
		to, from := t.members[(t.me+step)%t.size()], t.members[(t.me-step+t.size())%t.size()]
		t.g.message(false, nil, from, t.g.tag)
		t.g.message(true, nil, to, t.g.tag)
		if err := t.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
