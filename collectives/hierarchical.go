package collectives

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
)

// newHierarchical returns the algorithms for several nodes with several members each: N nodes, L members on
// each. Inside a node these algorithms use shared memory if there is any, and messages otherwise.
//
//	allreduce    long, nodes of one size: reduce-scatter in the node, a ring over the
//	             nodes for each of the L shards, one member a shard, allgather in the
//	             node. Between nodes each member moves 2(N-1)/N·S/L bytes:             2(N-1)(α + S/(N·L)·β)
//	             else: reduce to the node's head, recursive doubling over the heads,
//	             broadcast                                                             log₂N(α + Sβ)
//	broadcast    a tree over the heads, then in the nodes                              ⌈log₂N⌉(α + Sβ)
//	reduce       to the heads, then a tree over them                                   ⌈log₂N⌉(α + Sβ + Sγ)
//	barrier      the node, then the heads, then the node                               ⌈log₂N⌉α
//
// The costs count only communication between nodes. A node's head is its first member, but on the root's
// node it is the root.
func newHierarchical() *algorithm {
	return &algorithm{
		name: "hierarchical", kinds: of(spmd.Barrier, spmd.Broadcast, spmd.Reduce, spmd.AllReduce),
		run:  runHierarchical,
		fits: func(g *Group, _ *spmd.Collective) bool { return g.heads.size() > 1 && g.heads.size() < g.Size() },
	}
}

// long is the length in bytes from which every member of a node communicates with the other nodes. For
// shorter vectors only the node's head does.
const long = 32 << 10

func runHierarchical(ctx context.Context, t *team, c *spmd.Collective) error {
	g := t.g
	heads, root := g.headed(c.Root)
	inNode := heads.members[g.nodeIndex] // head of this node
	top := *c
	top.Root = root
	switch c.Kind {
	case spmd.Barrier:
		if err := g.inNode(ctx, c, spmd.Barrier, 0); err != nil {
			return err
		}
		if heads.me >= 0 {
			if err := heads.dissemination(ctx); err != nil {
				return err
			}
		}
		return g.inNode(ctx, c, spmd.Barrier, 0)
	case spmd.Broadcast:
		if heads.me >= 0 {
			if err := treeBroadcast(ctx, &heads, c.Data, root); err != nil {
				return err
			}
		}
		return g.inNode(ctx, c, spmd.Broadcast, inNode)
	case spmd.Reduce:
		if err := g.inNode(ctx, c, spmd.Reduce, inNode); err != nil || heads.me < 0 {
			return err
		}
		return treeReduce(ctx, &heads, &top, c.Data, root)
	}
	if g.peerGroup.size() > 0 && len(c.Data) >= long {
		if err := g.inNode(ctx, c, spmd.ReduceScatter, 0); err != nil {
			return err
		}
		if err := ring(ctx, &g.peerGroup, c, g.node.shard(c.Data, c.DType.Size(), g.node.me)); err != nil {
			return err
		}
		return g.inNode(ctx, c, spmd.AllGather, 0)
	}
	if err := g.inNode(ctx, c, spmd.Reduce, inNode); err != nil {
		return err
	}
	if heads.me >= 0 {
		if err := doubling(ctx, &heads, c, c.Data); err != nil {
			return err
		}
	}
	return g.inNode(ctx, c, spmd.Broadcast, inNode)
}

// headed returns the nodes' heads, with the root as head of its node, and the root's index.
func (g *Group) headed(root int) (heads team, at int) {
	g.rooted = append(g.rooted[:0], g.heads.members...)
	heads = team{g, g.rooted, -1}
	for i, m := range heads.members {
		if g.nodes[m] == g.nodes[root] {
			heads.members[i], at = root, i
		}
		if heads.members[i] == g.me {
			heads.me = i
		}
	}
	return heads, at
}

// inNode runs an operation of the given kind on c's data among the members of this node. root is a member
// of the group.
func (g *Group) inNode(ctx context.Context, c *spmd.Collective, kind spmd.Kind, root int) error {
	t := &g.node
	if t.size() == 1 {
		return nil
	}
	g.sub = *c
	g.sub.Kind, g.sub.Root = kind, 0
	for i, m := range t.members {
		if m == root {
			g.sub.Root = i
		}
	}
	switch {
	case g.shared != nil:
		return runShared(ctx, t, &g.sub)
	case kind == spmd.ReduceScatter || kind == spmd.AllGather:
		return ring(ctx, t, &g.sub, c.Data)
	default:
		return runTree(ctx, t, &g.sub)
	}
}
