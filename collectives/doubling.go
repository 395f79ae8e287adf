package collectives

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
)

// newDoubling returns recursive doubling: in round k members 2^k apart exchange all they have. After log₂P rounds
// each member has the whole reduction (Thakur, Rabenseifner and Gropp 2005). If P is not a power of two, the first
// 2(P-2^⌊log₂P⌋) members form pairs first, and one of each pair is idle until the end.
//
//	allreduce    log₂P(α + Sβ + Sγ), and 2(α + Sβ) + Sγ more where P is not a power of two
//	barrier      ⌈log₂P⌉α: the dissemination barrier of Hensgen, Finkel and Manber 1988, which needs no such detour
func newDoubling() *algorithm {
	return &algorithm{name: "doubling", kinds: of(spmd.Barrier, spmd.AllReduce), run: runDoubling}
}

func runDoubling(ctx context.Context, t *team, c *spmd.Collective) error {
	if c.Kind == spmd.Barrier {
		return t.dissemination(ctx)
	}
	return doubling(ctx, t, c, c.Data)
}

// doubling reduces b to every member.
func doubling(ctx context.Context, t *team, c *spmd.Collective, b []byte) error {
	return t.folded(ctx, c, b, func(f fold, in []byte) error {
		for step := 1; step < f.size; step *= 2 {
			peer := f.member(f.me ^ step)
			if err := t.exchange(ctx, b, peer, in, peer); err != nil {
				return err
			}
			reduceInto(c.DType, c.Op, b, in)
		}
		return nil
	})
}

// A fold is a team reduced to a power of two members. The first 2·extra members form pairs. The odd member of each
// pair has the sum of the pair, and the even member is idle.
type fold struct {
	size, extra int
	me          int // number in the fold; -1: idle
}

// member returns the team's number of member i of the fold.
func (f fold) member(i int) int {
	if i < f.extra {
		return 2*i + 1
	}
	return i + f.extra
}

// folded folds the team, runs reduce on the members of the fold and sends the result to the idle ones. The buffer
// in has the length of b.
func (t *team) folded(ctx context.Context, c *spmd.Collective, b []byte, reduce func(f fold, in []byte) error) error {
	in, err := t.g.scratch(len(b))
	if err != nil {
		return err
	}
	f, err := t.fold(ctx, c, b, in)
	if err != nil {
		return err
	}
	if f.me >= 0 {
		if err := reduce(f, in); err != nil {
			return err
		}
	}
	return t.unfold(ctx, f, b)
}

// fold reduces the idle members' b into their neighbours' b. in is a buffer with the length of b.
func (t *team) fold(ctx context.Context, c *spmd.Collective, b, in []byte) (fold, error) {
	f := fold{size: 1}
	for 2*f.size <= t.size() {
		f.size *= 2
	}
	f.extra = t.size() - f.size
	switch {
	case t.me >= 2*f.extra:
		f.me = t.me - f.extra
		return f, nil
	case t.me%2 == 0:
		f.me = -1
		if err := t.send(b, t.me+1); err != nil {
			return f, err
		}
		return f, t.wait(ctx)
	}
	f.me = t.me / 2
	if err := t.recv(in, t.me-1); err != nil {
		return f, err
	}
	if err := t.wait(ctx); err != nil {
		return f, err
	}
	reduceInto(c.DType, c.Op, b, in)
	return f, nil
}

// unfold sends b to the idle members.
func (t *team) unfold(ctx context.Context, f fold, b []byte) error {
	if t.me >= 2*f.extra {
		return nil
	}
	var err error
	if f.me < 0 {
		err = t.recv(b, t.me+1)
	} else {
		err = t.send(b, t.me-1)
	}
	if err != nil {
		return err
	}
	return t.wait(ctx)
}

// dissemination is a barrier. In round k every member tells the member at distance 2^k that it has arrived, and so
// have all members that it has heard of.
func (t *team) dissemination(ctx context.Context) error {
	for step := 1; step < t.size(); step *= 2 {
		to, from := t.members[(t.me+step)%t.size()], t.members[(t.me-step+t.size())%t.size()]
		if err := t.g.message(false, nil, from, t.g.tag); err != nil {
			return err
		}
		if err := t.g.message(true, nil, to, t.g.tag); err != nil {
			return err
		}
		if err := t.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
