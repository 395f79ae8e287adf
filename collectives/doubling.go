package collectives

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
)

// newDoubling returns recursive doubling: in each round, groups of members exchange their sums and merge, until one
// group has the sum of all members (Thakur, Rabenseifner and Gropp 2005). Here a round merges four groups; only the
// last round may merge two. If P is not a power of two, the members beyond the largest power of two below P reduce
// among themselves, and get the result in one more message (see halving).
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

// doubling reduces b over the team. Every member gets the result in b.
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

// dissemination runs the dissemination barrier. In round k every member sends an empty message to the member at
// distance 2^k. After ⌈log₂P⌉ rounds all members have arrived.
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
