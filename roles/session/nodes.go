package session

import (
	"context"
	"slices"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// measureNodes measures the links between the nodes of an MPI job, and how fast their hosts are, if rank 0 is going to
// plan. Rank 0 warns of hosts that differ from its own. Every rank calls it, and plans counts on rank 0.
func (s *session) measureNodes(ctx context.Context, w *spmd.World, world *collectives.Group, plans bool) error {
	nodes := w.Nodes()
	if w.Describe().Transport != "mpi" || slices.Max(nodes) == 0 {
		return nil
	}
	flag := []byte{0}
	if plans {
		flag[0] = 1
	}
	flag, err := loop.Broadcast(ctx, world, flag, 0)
	if err != nil || flag[0] == 0 {
		return err
	}
	s.phase(w, "measuring the network")
	var firsts []int
	for r, node := range nodes {
		if slices.Index(nodes, node) == r {
			firsts = append(firsts, r)
		}
	}
	if !slices.Contains(firsts, w.Rank()) {
		return nil
	}
	ends, err := w.NewComm(firsts, "first ranks of nodes")
	if err != nil {
		return err
	}
	s.nodes, err = advice.MeasureNodes(ctx, ends[0])
	if err == nil && s.nodes != nil {
		for _, text := range s.nodes.Unequal {
			s.warn(text)
		}
	}
	return err
}
