package planner

import "slices"

// sets returns the sets of ranks on which a component may have its members. These are the first ranks up to a cut, the
// ranks behind a cut, the ranks between a cut and its double, the first or last ranks of each node, and the groups. In
// a job that moves, the ranks that a component has now are another set.
func (s *Space) sets() (sets [][]int) {
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
		for _, of := range s.Present.all() {
			add(slices.Compact(slices.Clone(*of.ranks)))
		}
	}
	return sets
}

// inEachNode splits the ranks of the world. ranks has the first ranks of each node: the argument first is their number
// in a node. others has all other ranks.
func (s *Space) inEachNode(first int) (ranks, others []int) {
	at, node := 0, -1
	for r, of := range s.Nodes {
		if of != node {
			at, node = 0, of
		}
		if at < first {
			ranks = append(ranks, r)
		} else {
			others = append(others, r)
		}
		at++
	}
	return ranks, others
}

// cutsOf returns numbers between 1 and n-1 at which n ranks may be cut. If n is small, these are all numbers. Otherwise
// they are powers of two, halves, quarters, n-1, and multiples of perNode if there are few nodes.
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

// actorSets returns the ways to place the actors, whose number is fixed.
func (s *Space) actorSets(w *Work, mesh Mesh, sets [][]int) (list [][]int) {
	if ranks := s.Fixed["actor"]; ranks != nil {
		return [][]int{ranks}
	}
	n := w.Actors * mesh.Members()
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

// memberSets returns the ways to place a component. A fixed component stays where it is. Otherwise each rank of a set
// has one member. For a small set, a further way has two members on each rank. Replicas are always whole. If members
// move, their number stays: see moves. If the job does not have the component, the only way is nil.
func (s *Space) memberSets(has bool, component string, mesh Mesh, sets [][]int) (list [][]int) {
	if !has {
		return [][]int{nil}
	}
	if fixed := s.Fixed[component]; fixed != nil {
		return [][]int{fixed}
	}
	if s.Move {
		return s.moves(component, len(s.Present.Ranks(component)), sets)
	}
	n := mesh.Members()
	for _, set := range sets {
		set = whole(set, n)
		list = append(list, set)
		if len(set) <= 8 {
			list = append(list, repeated(set, 2))
		}
	}
	return list
}

// moves returns the ways to place the n members that a component has now: on the present ranks, or distributed over the
// ranks of a set.
func (s *Space) moves(component string, n int, sets [][]int) [][]int {
	now := s.Present.Ranks(component)
	list := [][]int{now}
	for _, ranks := range dealt(n, sets) {
		if !slices.Equal(ranks, now) {
			list = append(list, ranks)
		}
	}
	return list
}

// whole returns ranks for whole replicas of n members. If the number of ranks is a multiple of n, each rank has one
// member. Otherwise each rank has n members.
func whole(ranks []int, n int) []int {
	if len(ranks)%n == 0 {
		return ranks
	}
	return repeated(ranks, n)
}

// dealt returns the ways to distribute n members evenly over the ranks of a set. The numbers of members on two ranks
// differ by at most 1.
func dealt(n int, sets [][]int) (list [][]int) {
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

// repeated returns each rank n times.
func repeated(ranks []int, n int) (list []int) {
	for _, r := range ranks {
		for range n {
			list = append(list, r)
		}
	}
	return list
}
