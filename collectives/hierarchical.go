package collectives

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// newHierarchical returns the algorithm "hierarchical", for N nodes with L members each. A node's head is its first
// member, or the root on the root's node. Inside a node the algorithm uses shared memory. Without shared memory it
// supports only broadcasts and barriers, by messages.
//
//	allreduce    long vector, equal nodes: reduce-scatter in the node; member i of
//	             each node reduces shard i over the nodes by halving; allgather in
//	             the node                                                              2(⌊log₂N⌋-1)α + 2S/Lβ
//	             otherwise: reduce to the node's head; recursive doubling over the
//	             heads; broadcast in the node                                          ½⌊log₂N⌋(α + 3Sβ)
//	broadcast    tree over the heads; broadcast in the nodes                           ⌈log₂N⌉(α + Sβ)
//	reduce       reduce to the heads; tree over the heads                              ⌈log₂N⌉(α + Sβ + Sγ)
//	barrier      barrier in the node, over the heads, and in the node                  ⌈log₂N⌉α
//
// The costs count only communication between nodes. The costs of an allreduce assume that N is a power of two.
//
// A sum has the bits of the tree over members only if each node's members are a subtree of that tree. Unless
// Options.Fast is set, the algorithm supports reductions only in groups with this property. It then also excludes
// bfloat16, because it would round the sum of each node.
func newHierarchical() *algorithm {
	return &algorithm{
		name: "hierarchical", ordered: true, kinds: of(spmd.Barrier, spmd.Broadcast, spmd.Reduce, spmd.AllReduce),
		run: runHierarchical,
		fits: func(g *Group, c *spmd.Collective) bool {
			return g.heads.size() > 1 && g.heads.size() < g.Size() && (!reduces(c.Kind) ||
				g.shared != nil && (g.opts.Fast || g.aligned && c.DType != tensor.BF16))
		},
	}
}

// minLong is the length, in bytes, of a long vector. In an allreduce of a long vector, every member of a node
// communicates with the other nodes. With a shorter vector, only the node's head communicates.
const minLong = 32 << 10

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
	if g.peerGroup.size() > 0 && len(c.Data) >= minLong {
		if err := g.inNode(ctx, c, spmd.ReduceScatter, 0); err != nil {
			return err
		}
		if err := rabenseifner(ctx, &g.peerGroup, c, g.node.shard(c.Data, c.DType.Size(), g.node.me)); err != nil {
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

// headed returns the team of the nodes' heads, and the root's index in this team. The head of the root's node is the
// root itself.
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
func (g *Group) inNode(ctx context.Context, c *spmd.Collective, kind spmd.CollectiveKind, root int) error {
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
	if g.shared != nil {
		return runShared(ctx, t, &g.sub)
	}
	return runTree(ctx, t, &g.sub)
}
