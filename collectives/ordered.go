package collectives

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
)

// maxOwners is the size of the largest team for "ordered". In a larger team a member would send more than 2⌈log₂P⌉+2
// messages.
const maxOwners = 5

// newOrdered returns the algorithm "ordered". Each member owns a block of the vector:
//
//  1. every member sends its piece of each block to the owner         (P-1)α + (P-1)/P·Sβ
//  2. the owner reduces the pieces by the tree over members           (P-1)/P·Sγ
//  3. in an allreduce, the owner sends the result to all members      (P-1)α + (P-1)/P·Sβ
//
// It sends the same number of bytes as the ring, and all messages of a step at the same time. It is for small teams,
// because every member sends a message to every other member.
func newOrdered() *algorithm {
	return &algorithm{name: "ordered", ordered: true, kinds: of(spmd.AllReduce, spmd.ReduceScatter), run: runOrdered,
		fits: func(g *Group, _ *spmd.Collective) bool { return g.Size() <= maxOwners }}
}

func runOrdered(ctx context.Context, t *team, c *spmd.Collective) error {
	mine := t.block(c.Data, c, t.me)
	if err := gatherPieces(t, mine); err != nil {
		return err
	}
	for i := 1; i < t.size(); i++ { // each member sends to its next neighbour first, to spread the load
		m := (t.me + i) % t.size()
		t.send(t.block(c.Data, c, m), m)
	}
	if err := t.wait(ctx); err != nil { // wait for the sends too, because results overwrite the pieces
		return err
	}
	t.g.dsts = append(t.g.dsts[:0], mine)
	t.g.sums.reduce(c.DType, c.Op, t.g.dsts, t.g.pieces, 0, len(mine))
	if c.Kind == spmd.ReduceScatter {
		return nil
	}
	return directAllGather(ctx, t, c)
}

// gatherPieces starts to receive the other members' pieces of this member's block. It stores all pieces, including this
// member's, in g.pieces, in member order.
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
		} else {
			t.recv(piece, m)
		}
		g.pieces = append(g.pieces, piece)
	}
	return nil
}
