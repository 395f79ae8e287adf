package collectives

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/spmd"
)

// newLibrary returns the algorithm "mpi": the MPI library's own barrier, broadcast and allreduce, on a separate
// communicator. It uses non-blocking calls, so that waiting uses no CPU and ends with the job. The library determines
// the cost and the order of additions.
func newLibrary() *algorithm {
	return &algorithm{
		name: "mpi", kinds: of(spmd.Barrier, spmd.Broadcast, spmd.AllReduce), run: runLibrary,
		fits: func(g *Group, _ *spmd.Collective) bool { return g.host.HasNative() && g.distinct },
	}
}

func runLibrary(ctx context.Context, t *team, c *spmd.Collective) error {
	g := t.g
	if g.native == nil {
		ranks := make([]int, t.size())
		for m := range ranks {
			ranks[m] = g.comm.WorldRank(m)
		}
		var err error
		if g.native, err = g.host.NewNative(ranks, fmt.Sprintf("collectives of ranks %v", ranks)); err != nil {
			return err
		}
	}
	return g.native.Run(ctx, c)
}
