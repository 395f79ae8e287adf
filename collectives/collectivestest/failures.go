package collectivestest

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/spmd"
)

// Await runs an operation that member 0 cannot complete without member 1. Member 1 calls another function
// and does not take part in the operation. On member 0, Await returns the operation's error.
func Await(ctx context.Context, w *spmd.World, algorithm string, kind spmd.CollectiveKind,
	wrap func(collectives.Host) collectives.Host, instead func() error) error {
	ranks := make([]int, w.Size())
	for r := range ranks {
		ranks[r] = r
	}
	ends, err := w.NewComm(ranks, "await")
	if err != nil {
		return err
	}
	var host collectives.Host = w
	if wrap != nil {
		host = wrap(host)
	}
	g, err := collectives.New(host, ends[0], collectives.Options{Algorithm: algorithm, Fast: true})
	if err != nil {
		return err
	}
	if err := g.Barrier(ctx); err != nil { // the first operation initializes the group
		return err
	}
	if w.Rank() == 1 {
		return instead()
	}
	const n = 840 // even blocks for groups of up to 8
	x := make([]float32, n)
	c := spmd.Collective{}
	switch kind {
	case spmd.Broadcast:
		c = collectives.Broadcast(x, 1)
	case spmd.Reduce:
		c = collectives.Reduce(x, spmd.Sum, 0)
	case spmd.AllReduce:
		c = collectives.AllReduce(x, spmd.Sum)
	case spmd.ReduceScatter:
		c = collectives.ReduceScatter(x, spmd.Sum, nil)
	case spmd.AllGather:
		c = collectives.AllGather(x, nil)
	case spmd.Gather:
		if w.Rank() != 0 {
			x = x[:n/w.Size()]
		}
		c = collectives.Gather(x, 0, nil)
	case spmd.Scatter:
		c = collectives.Scatter(x[:n/w.Size()], 1, nil)
	case spmd.AllToAll:
		c = collectives.AllToAll(x, nil, nil, nil)
	case spmd.SendReceive:
		c = collectives.SendReceive(x, 1, x, 1)
	}
	if err := g.Run(ctx, c); err != nil {
		return err
	}
	if w.Rank() != 0 {
		<-ctx.Done() // member 0 alone must return the error
		return context.Cause(ctx)
	}
	return fmt.Errorf("%v returned without member 1", kind)
}
