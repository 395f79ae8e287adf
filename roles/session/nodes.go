package session

import (
	"context"
	"slices"

	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/loop"
)

// measureNodes measures the links between the nodes of an MPI job, and how fast their hosts are, if rank 0 is going to
// plan. Rank 0 warns of hosts that differ from its own. Every rank calls measureNodes, but only rank 0 needs the right
// value of the argument plans.
func (r *rank) measureNodes(ctx context.Context, plans bool) error {
	nodes := r.w.Nodes()
	if r.w.Describe().Transport != "mpi" || slices.Max(nodes) == 0 {
		return nil
	}
	flag := []byte{0}
	if plans {
		flag[0] = 1
	}
	flag, err := loop.Broadcast(ctx, r.world, flag, 0)
	if err != nil || flag[0] == 0 {
		return err
	}
	r.phase("measuring the network")
	var firsts []int
	for i, node := range nodes {
		if slices.Index(nodes, node) == i {
			firsts = append(firsts, i)
		}
	}
	if !slices.Contains(firsts, r.w.Rank()) {
		return nil
	}
	ends, err := r.w.NewComm(firsts, "first ranks of nodes")
	if err != nil {
		return err
	}
	r.nodes, err = advice.MeasureNodes(ctx, ends[0])
	if err == nil && r.nodes != nil {
		for _, text := range r.nodes.Unequal {
			r.warn(text)
		}
	}
	return err
}
