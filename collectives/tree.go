package collectives

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// newTree returns the binomial tree. In round k of a broadcast, each of the 2^k members that have the vector sends it
// to one more member. A reduction has the same rounds in reverse: if m mod 2^(k+1) = 2^k, member m is the child of
// member m-2^k.
//
//	broadcast    members are numbered from the root                             ⌈log₂P⌉(α + Sβ)
//	reduce       the root replaces its ancestors in the tree                    ⌈log₂P⌉(α + Sβ + Sγ)
//	allreduce    reduce, then broadcast                                         2⌈log₂P⌉(α + Sβ) + ⌈log₂P⌉Sγ
//	barrier      the dissemination barrier                                      ⌈log₂P⌉α
func newTree() *algorithm {
	return &algorithm{name: "tree", ordered: true, run: runTree,
		kinds: of(spmd.Barrier, spmd.Broadcast, spmd.Reduce, spmd.AllReduce)}
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
			t.send(b, (me+step+root)%p)
		case me >= step && me < 2*step:
			t.recv(b, (me-step+root)%p)
			if err := t.wait(ctx); err != nil { // data must arrive before it is passed on
				return err
			}
		}
	}
	return t.wait(ctx)
}

// treeReduce reduces b to the root by the tree over members. The sum of a subtree is at its first member, or at the
// root if the subtree contains the root. In round k neighbouring subtrees of 2^k members merge in pairs: the holder of
// one sum sends it to the holder of the other sum. The root always receives. Partial sums of bfloat16 are float32.
func treeReduce(ctx context.Context, t *team, c *spmd.Collective, b []byte, root int) error {
	sum, dtype, need := b, c.DType, len(b)
	if dtype == tensor.BF16 {
		need *= 4
	}
	in, err := t.g.scratch(need)
	if err != nil {
		return err
	}
	if dtype == tensor.BF16 {
		in, sum, dtype = in[:2*len(b)], in[2*len(b):], tensor.F32
		tensor.FromBF16(view[float32](sum), view[uint16](b))
	}
	holder := func(first, step int) int {
		if first <= root && root < first+step {
			return root
		}
		return first
	}
	for step := 1; step < t.size(); step *= 2 {
		left := t.me &^ (2*step - 1)
		if left+step >= t.size() {
			continue
		}
		to, from := holder(left, step), holder(left+step, step)
		if from == root {
			to, from = from, to
		}
		if t.me == from {
			t.send(sum, to)
			return t.wait(ctx)
		}
		t.recv(in, from)
		if err := t.wait(ctx); err != nil {
			return err
		}
		combine(dtype, c.Op, sum, sum, in)
	}
	if dtype != c.DType {
		tensor.ToBF16(view[uint16](b), view[float32](sum))
	}
	return nil
}
