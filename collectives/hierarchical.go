package collectives

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// newHierarchical returns the algorithms for several nodes with several members each: N nodes, L members on
// each. Inside a node these algorithms use shared memory if there is any. Otherwise only broadcasts and barriers
// are possible, which then use messages.
//
//	allreduce    long, nodes of one size: reduce-scatter in the node, for each of the
//	             L shards an allreduce by halving over the nodes, one member a shard,
//	             and allgather in the node                                             2(⌊log₂N⌋-1)α + 2S/Lβ
//	             else: reduce to the node's head, recursive doubling over the heads,
//	             broadcast                                                             ½⌊log₂N⌋(α + 3Sβ)
//	broadcast    a tree over the heads, then in the nodes                              ⌈log₂N⌉(α + Sβ)
//	reduce       to the heads, then a tree over them                                   ⌈log₂N⌉(α + Sβ + Sγ)
//	barrier      the node, then the heads, then the node                               ⌈log₂N⌉α
//
// The costs count only communication between nodes. The costs of an allreduce assume that N is a power of two. A node's
// head is its first member. On the root's node, the root is the head.
//
// A sum has the bits of the tree over members only if each node's members are a subtree of that tree. Unless
// Options.Fast is set, the algorithm is only for such groups, and not for bfloat16, because it would round the sum of
// each node.
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

// long is a length in bytes. For vectors of at least this length, every member of a node communicates with the other
// nodes. For shorter vectors, only the node's head does.
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
	if g.shared != nil {
		return runShared(ctx, t, &g.sub)
	}
	return runTree(ctx, t, &g.sub)
}
