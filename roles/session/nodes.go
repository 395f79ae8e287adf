package session

import (
	"context"
	"slices"

	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/loop"
)

// measureNodes measures the links between the nodes of an MPI job, and the speed of their hosts. It does nothing unless
// needed is true on rank 0. Rank 0 warns of hosts whose speed differs. Every rank must call it.
func (r *rank) measureNodes(ctx context.Context, needed bool) error {
	nodes := r.w.Nodes()
	if r.w.Describe().Transport != "mpi" || slices.Max(nodes) == 0 {
		return nil
	}
	flag := []byte{0}
	if needed {
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
