package planner

import "github.com/rlinf/rlinf/roles/mesh"

// A group has the members of one component, with the values that closed forms need.
type group struct {
	ranks   []int
	mesh    mesh.Mesh
	threads int      // threads of a member; 0 means 1
	inside  level    // the largest distance within a replica
	perNode []int    // members on each node
	most    int      // members on the fullest node
	hosts   []int    // ranks with members on each node
	on      int      // number of nodes with members
	bits    []uint64 // the ranks as a set
}

// newGroup returns the group of the members on these ranks, or nil if there are none. The mesh by says how their
// replicas divide models. Rank r of the world is on node nodes[r].
func newGroup(ranks, nodes []int, by mesh.Mesh) *group {
	if len(ranks) == 0 {
		return nil
	}
	g := &group{ranks: ranks, mesh: by, bits: make([]uint64, len(nodes)/64+1)}
	if len(nodes) > 0 {
		n := nodes[len(nodes)-1] + 1
		g.perNode, g.hosts = make([]int, n), make([]int, n)
	}
	for i, r := range ranks {
		if first := i - i%by.Members(); first < i {
			g.inside = max(g.inside, distance(ranks[first], r, nodes))
		}
		n := nodes[r]
		if g.perNode[n]++; g.perNode[n] == 1 {
			g.on++
		}
		g.most = max(g.most, g.perNode[n])
		if bit := uint64(1) << (r % 64); g.bits[r/64]&bit == 0 {
			g.bits[r/64] |= bit
			g.hosts[n]++
		}
	}
	return g
}

// crowd returns the seconds of a call of op on this many rows per replica, on the fullest node. Members on one node
// slow each other down.
func (g *group) crowd(m *Machine, p *Profile, op string, rows float64) float64 {
	t := g.call(m, p, op, rows)
	return t.Seconds - t.Busy + t.Busy*slowdown(m, p, OpUpdate, g.activeThreads())
}

// disjoint reports whether g and h have no rank in common.
func (g *group) disjoint(h *group) bool {
	for i := range g.bits {
		if g.bits[i]&h.bits[i] != 0 {
			return false
		}
	}
	return true
}

// A level is the distance between two members.
type level int

const (
	sameRank level = iota
	sameNode
	twoNodes
)

// link returns the link between two members at distance l.
func (m *Machine) link(l level) Link { return [...]Link{m.Process, m.SameNode, m.Network}[l] }

// distance returns the distance between two ranks.
func distance(a, b int, nodes []int) level {
	switch {
	case a == b:
		return sameRank
	case nodes[a] == nodes[b]:
		return sameNode
	}
	return twoNodes
}

// A meeting describes which members of two groups exchange data. Such members are peers.
type meeting struct {
	inline bool  // each member of the first group has one peer, on its own rank
	worst  level // the largest distance between two peers
}

// meet returns the meeting of a and b. Each group divides the rows (for example environments) evenly among its members,
// in order. Members with common rows are peers. For steps of environments, a is the group of env workers.
func meet(a, b *group, nodes []int) meeting {
	m := meeting{inline: true}
	for i, j := 0, 0; i < len(a.ranks) && j < len(b.ranks); {
		m.worst = max(m.worst, distance(a.ranks[i], b.ranks[j], nodes))
		endA, endB := (i+1)*len(b.ranks), (j+1)*len(a.ranks)
		m.inline = m.inline && a.ranks[i] == b.ranks[j] && endA <= endB && (i*len(b.ranks) >= j*len(a.ranks))
		if endA <= endB {
			i++
		}
		if endB <= endA {
			j++
		}
	}
	return m
}
