package collectives

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
)

// newTree returns the binomial tree. Members are numbered from the root. In round k, if m mod 2^(k+1) =
// 2^k, member m is the child of member m-2^k.
//
//	broadcast    ⌈log₂P⌉ rounds, the whole to one member more than have it      ⌈log₂P⌉(α + Sβ)
//	reduce       the same rounds backwards                                      ⌈log₂P⌉(α + Sβ + Sγ)
//	allreduce    reduce, then broadcast                                         2⌈log₂P⌉(α + Sβ) + ⌈log₂P⌉Sγ
//	barrier      the dissemination barrier                                      ⌈log₂P⌉α
func newTree() *algorithm {
	return &algorithm{name: "tree", kinds: of(spmd.Barrier, spmd.Broadcast, spmd.Reduce, spmd.AllReduce), run: runTree}
}

func runTree(ctx context.Context, t *team, c *spmd.Collective) error {
	switch c.Kind {
	case spmd.Barrier:
		return t.dissemination(ctx)
	case spmd.Broadcast:
		return treeBroadcast(ctx, t, c.Data, c.Root)
	case spmd.Reduce:
		return treeReduce(ctx, t, c, c.Data, c.Root)
	default:
		if err := treeReduce(ctx, t, c, c.Data, 0); err != nil {
			return err
		}
		return treeBroadcast(ctx, t, c.Data, 0)
	}
}

func treeBroadcast(ctx context.Context, t *team, b []byte, root int) error {
	p := t.size()
	me := (t.me - root + p) % p // number relative to the root
	for step := 1; step < p; step *= 2 {
		switch {
		case me < step && me+step < p:
			if err := t.send(b, (me+step+root)%p); err != nil {
				return err
			}
		case me >= step && me < 2*step:
			if err := t.recv(b, (me-step+root)%p); err != nil {
				return err
			}
			if err := t.wait(ctx); err != nil { // data must arrive before it is passed on
				return err
			}
		}
	}
	return t.wait(ctx)
}

func treeReduce(ctx context.Context, t *team, c *spmd.Collective, b []byte, root int) error {
	in, err := t.g.scratch(len(b))
	if err != nil {
		return err
	}
	p := t.size()
	me := (t.me - root + p) % p
	for step := 1; step < p; step *= 2 {
		if me&step != 0 {
			if err := t.send(b, (me-step+root)%p); err != nil {
				return err
			}
			return t.wait(ctx)
		}
		if me+step < p {
			if err := t.recv(in, (me+step+root)%p); err != nil {
				return err
			}
			if err := t.wait(ctx); err != nil {
				return err
			}
			reduceInto(c.DType, c.Op, b, in)
		}
	}
	return nil
}
