package planner

import (
	"slices"

	"github.com/rlinf/rlinf/roles/mesh"
)

// sets returns the sets of ranks that a search tries for the members of a component. For each cut c of cutsOf, these
// include the ranks below c, the ranks from c on, and the ranks from c to 2c-1. The other sets are s.Groups, and the
// first or last ranks of each node. If s.Move is true, there are also the present ranks of each component.
func (s *SearchSpace) sets() (sets [][]int) {
	n, perNode := len(s.Nodes), 0
	for _, at := range s.Nodes {
		if at == s.Nodes[0] {
			perNode++
		}
	}
	add := func(ranks []int) {
		if len(ranks) > 0 && !slices.ContainsFunc(sets, func(x []int) bool { return slices.Equal(x, ranks) }) {
			sets = append(sets, ranks)
		}
	}
	cuts := cutsOf(n, perNode)
	for _, lo := range append([]int{0}, cuts...) {
		for _, hi := range append(cuts, n) {
			if lo < hi && (lo == 0 || hi == n || hi-lo == lo) {
				add(span(lo, hi))
			}
		}
	}
	if perNode < n {
		for _, cut := range cutsOf(perNode, perNode) {
			first, rest := s.inEachNode(cut)
			add(first)
			add(rest)
		}
	}
	for _, g := range s.Groups {
		add(g)
	}
	if s.Move {
		for _, of := range s.Present.components() {
			add(slices.Compact(slices.Clone(*of.ranks)))
		}
	}
	return sets
}

// inEachNode splits the ranks of the world into the first n ranks of each node and all others.
func (s *SearchSpace) inEachNode(n int) (ranks, others []int) {
	at, node := 0, -1
	for r, of := range s.Nodes {
		if of != node {
			at, node = 0, of
		}
		if at < n {
			ranks = append(ranks, r)
		} else {
			others = append(others, r)
		}
		at++
	}
	return ranks, others
}

// cutsOf returns the numbers from 1 to n-1 at which a search cuts n ranks in two. If n is at most 8, it returns all of
// them. Otherwise it returns powers of two, quarters of n, n-1, and multiples of perNode if there are at most 8 nodes.
func cutsOf(n, perNode int) (cuts []int) {
	for c := 1; c < n; c++ {
		power := c&(c-1) == 0
		nodes := perNode > 0 && c%perNode == 0 && n/perNode <= 8
		if n <= 8 || power || nodes || 4*c%n == 0 || n-c == 1 {
			cuts = append(cuts, c)
		}
	}
	return cuts
}

func span(lo, hi int) []int {
	ranks := make([]int, 0, hi-lo)
	for r := lo; r < hi; r++ {
		ranks = append(ranks, r)
	}
	return ranks
}

// actorSets returns the placements that a search tries for the actors. The number of actors is fixed.
func (s *SearchSpace) actorSets(w *Workload, by mesh.Mesh, sets [][]int) (list [][]int) {
	if ranks := s.Fixed["actor"]; ranks != nil {
		return [][]int{ranks}
	}
	n := w.Actors * by.Members()
	if s.Move {
		return s.moves("actor", n, sets)
	}
	alone := false // whether a set has a rank for each actor
	for _, set := range sets {
		if len(set) <= n && n%len(set) == 0 {
			list = append(list, repeated(set, n/len(set)))
			alone = alone || len(set) == n
		}
	}
	if ranks := len(s.Nodes); n < ranks && !alone {
		list = append(list, span(0, n), span(ranks-n, ranks))
	}
	return list
}

// memberSets returns the placements that a search tries for a component. A fixed component has one placement. Otherwise
// each rank of a set has one member. For sets of at most 8 ranks, a search also tries two members on each rank. All
// replicas are complete. If s.Move is true, the number of members does not change: see moves. If the job lacks the
// component, the only placement is nil.
func (s *SearchSpace) memberSets(has bool, component string, by mesh.Mesh, sets [][]int) (list [][]int) {
	if !has {
		return [][]int{nil}
	}
	if fixed := s.Fixed[component]; fixed != nil {
		return [][]int{fixed}
	}
	if s.Move {
		return s.moves(component, len(s.Present.Ranks(component)), sets)
	}
	n := by.Members()
	for _, set := range sets {
		set = placeWhole(set, n)
		list = append(list, set)
		if len(set) <= 8 {
			list = append(list, repeated(set, 2))
		}
	}
	return list
}

// moves returns the placements that a search tries for the n members of a component: the present ranks, and the
// distributions of n members over each set.
func (s *SearchSpace) moves(component string, n int, sets [][]int) [][]int {
	now := s.Present.Ranks(component)
	list := [][]int{now}
	for _, ranks := range distribute(n, sets) {
		if !slices.Equal(ranks, now) {
			list = append(list, ranks)
		}
	}
	return list
}

// placeWhole places complete replicas of n members on ranks. If the number of ranks is a multiple of n, each rank gets
// one member. Otherwise each rank gets n members.
func placeWhole(ranks []int, n int) []int {
	if len(ranks)%n == 0 {
		return ranks
	}
	return repeated(ranks, n)
}

// distribute distributes n members evenly over the ranks of each set. It omits sets of more than n ranks.
func distribute(n int, sets [][]int) (list [][]int) {
	for _, set := range sets {
		if len(set) > n {
			continue
		}
		ranks := make([]int, n)
		for i := range ranks {
			ranks[i] = set[i*len(set)/n]
		}
		list = append(list, ranks)
	}
	return list
}

// repeated returns a list that has each rank n times.
func repeated(ranks []int, n int) (list []int) {
	for _, r := range ranks {
		for range n {
			list = append(list, r)
		}
	}
	return list
}
