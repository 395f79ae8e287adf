package collectives

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/spmd"
)

// TestCosts compares the costs with the formulas in the algorithms' files, computed by hand for P members on N nodes.
func TestCosts(t *testing.T) {
	const kib = 1 << 10
	for _, x := range []struct {
		algorithm     string
		shape         Shape
		rounds, bytes float64
	}{
		{"shared", Shape{spmd.Barrier, 8, 1, 0}, 1, 0},
		{"shared", Shape{spmd.AllReduce, 8, 1, 64 * kib}, 1, 2 * 8 * 64 * kib},
		{"shared", Shape{spmd.AllReduce, 8, 1, 128 * kib}, 2, 2 * 128 * kib},
		{"shared", Shape{spmd.Reduce, 8, 1, 1 * kib}, 1, 9 * kib},
		{"shared", Shape{spmd.Reduce, 8, 1, 128 * kib}, 2, 144 * kib},
		{"shared", Shape{spmd.ReduceScatter, 8, 1, 64 * kib}, 2, 72 * kib},
		{"shared", Shape{spmd.Broadcast, 8, 1, 4 * kib}, 1, 8 * kib},
		{"shared", Shape{spmd.Broadcast, 8, 1, 8 * kib}, 2, 16 * kib},
		{"shared", Shape{spmd.AllGather, 8, 1, 8 * kib}, 2, 16 * kib},
		{"ordered", Shape{spmd.AllReduce, 4, 1, 64 * kib}, 6, 2 * 3 * 16 * kib},
		{"ordered", Shape{spmd.ReduceScatter, 4, 1, 8 * kib}, 3, 6 * kib},
		{"ring", Shape{spmd.AllReduce, 8, 1, 8 * kib}, 14, 14 * kib},
		{"ring", Shape{spmd.AllGather, 8, 1, 8 * kib}, 7, 7 * kib},
		{"direct", Shape{spmd.AllToAll, 8, 1, 8 * kib}, 7, 7 * kib},
		{"direct", Shape{spmd.SendReceive, 8, 1, 8 * kib}, 1, 8 * kib},
		{"doubling", Shape{spmd.AllReduce, 8, 1, 8 * kib}, 2, 32 * kib},
		{"doubling", Shape{spmd.AllReduce, 6, 1, 8 * kib}, 2, 32 * kib}, // a round of four, and one more
		{"doubling", Shape{spmd.Barrier, 6, 1, 0}, 3, 0},
		{"rabenseifner", Shape{spmd.AllReduce, 8, 1, 8 * kib}, 4, 14 * kib},
		{"rabenseifner", Shape{spmd.AllReduce, 6, 1, 8 * kib}, 2, 16 * kib},
		{"rabenseifner", Shape{spmd.ReduceScatter, 8, 1, 8 * kib}, 2, 7 * kib},
		{"rabenseifner", Shape{spmd.ReduceScatter, 5, 1, 10 * kib}, 2, 12 * kib},
		{"tree", Shape{spmd.Broadcast, 6, 1, 8 * kib}, 3, 24 * kib},
		{"tree", Shape{spmd.AllReduce, 8, 1, 8 * kib}, 6, 48 * kib},
		{"hierarchical", Shape{spmd.AllReduce, 8, 4, 64 * kib}, 2, 48 * kib},
		{"hierarchical", Shape{spmd.AllReduce, 8, 4, 8 * kib}, 1, 24 * kib},
		{"hierarchical", Shape{spmd.Broadcast, 8, 4, 8 * kib}, 2, 16 * kib},
		{"mpi", Shape{spmd.AllReduce, 8, 1, 8 * kib}, 3, 14 * kib},
		{"mpi", Shape{spmd.Broadcast, 8, 1, 8 * kib}, 3, 8 * kib},
	} {
		c := CostOf(x.algorithm, x.shape)
		if c.Rounds != x.rounds || math.Abs(c.Bytes-x.bytes) > 1e-9*x.bytes {
			t.Errorf("%s %v: %g rounds, %g bytes; want %g and %g", x.algorithm, x.shape, c.Rounds, c.Bytes, x.rounds,
				x.bytes)
		}
		if c.RoundsFormula == "" || c.BytesFormula == "" {
			t.Errorf("%s %v has no formula: %+v", x.algorithm, x.shape, c)
		}
	}
}
