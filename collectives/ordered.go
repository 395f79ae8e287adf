package collectives

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
)

// maxSingleOwner is the largest S·P, in bytes, for which one member reduces the whole vector. Of
// larger vectors each member reduces a shard. Short vectors need few messages, because latency
// dominates: 2(P-1) messages beat 2P(P-1).
const maxSingleOwner = 512 << 10

// newOrdered returns the algorithm that reduces in member order, x₀ + x₁ + … element by element.
// The bits of the result do not depend on transport, library, placement or order of arrival. The
// vector is cut into shards, each with an owner:
//
//  1. every member sends its piece of each shard to the owner         (P-1)α + (P-1)/P·Sβ
//  2. the owner reduces the pieces in member order                    (P-1)/P·Sγ
//  3. the owner sends the result to those that want it                (P-1)α + (P-1)/P·Sβ
//
// The algorithm moves as many bytes as a ring, in two rounds. A short vector is one shard. An
// allreduce of a short vector costs 2(α + Sβ(P-1)), and members take turns as its owner. A reduce
// is owned by the root and costs half of that.
func newOrdered() *algorithm {
	return &algorithm{name: "ordered", ordered: true, kinds: of(spmd.Reduce, spmd.AllReduce, spmd.ReduceScatter),
		run: runOrdered}
}

func runOrdered(ctx context.Context, t *team, c *spmd.Collective) error {
	if c.Kind != spmd.ReduceScatter && len(c.Data)*t.size() <= maxSingleOwner {
		owner := c.Root
		if c.Kind == spmd.AllReduce {
			owner = t.g.seq % t.size()
		}
		return orderedAlone(ctx, t, c, owner)
	}
	mine := t.block(c.Data, c, t.me)
	if err := gatherPieces(t, mine); err != nil {
		return err
	}
	for i := 1; i < t.size(); i++ { // each starts with its next neighbour, to spread the load
		m := (t.me + i) % t.size()
		if err := t.send(t.block(c.Data, c, m), m); err != nil {
			return err
		}
	}
	if err := t.wait(ctx); err != nil { // the sends must be done too: results overwrite the pieces
		return err
	}
	reducePieces(t, c, mine)
	for i := 1; i < t.size(); i++ {
		m := (t.me + i) % t.size()
		if c.Kind == spmd.AllReduce || c.Kind == spmd.Reduce && m == c.Root {
			if err := t.send(mine, m); err != nil {
				return err
			}
		}
		if c.Kind == spmd.AllReduce || c.Kind == spmd.Reduce && t.me == c.Root {
			if err := t.recv(t.block(c.Data, c, m), m); err != nil {
				return err
			}
		}
	}
	return t.wait(ctx)
}

// orderedAlone reduces the whole vector on the owner.
func orderedAlone(ctx context.Context, t *team, c *spmd.Collective, owner int) error {
	if t.me != owner {
		if err := t.send(c.Data, owner); err != nil {
			return err
		}
		if err := t.wait(ctx); err != nil || c.Kind == spmd.Reduce {
			return err
		}
		if err := t.recv(c.Data, owner); err != nil {
			return err
		}
		return t.wait(ctx)
	}
	if err := gatherPieces(t, c.Data); err != nil {
		return err
	}
	if err := t.wait(ctx); err != nil {
		return err
	}
	reducePieces(t, c, c.Data)
	for i := 1; i < t.size() && c.Kind == spmd.AllReduce; i++ {
		if err := t.send(c.Data, (t.me+i)%t.size()); err != nil {
			return err
		}
	}
	return t.wait(ctx)
}

// gatherPieces starts receiving the other members' pieces of this member's shard. It puts all
// pieces into g.pieces, in member order.
func gatherPieces(t *team, mine []byte) error {
	g := t.g
	mem, err := g.scratch(t.size() * len(mine))
	if err != nil {
		return err
	}
	g.pieces = g.pieces[:0]
	for m := range t.size() {
		piece := mem[m*len(mine) : (m+1)*len(mine)]
		if m == t.me {
			piece = mine
		} else if err := t.recv(piece, m); err != nil {
			return err
		}
		g.pieces = append(g.pieces, piece)
	}
	return nil
}

// reducePieces reduces g.pieces into this member's shard.
func reducePieces(t *team, c *spmd.Collective, mine []byte) {
	t.g.dsts = append(t.g.dsts[:0], mine)
	reduceAll(c.DType, c.Op, t.g.dsts, t.g.pieces, 0, len(mine))
}
