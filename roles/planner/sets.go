package planner

import "slices"

// sets returns the sets of ranks on which a component may have its members. These are the first ranks up to a cut,
// those behind a cut, those between a cut and its double, the first or last ranks of each node, and the groups. In a
// job that moves, the ranks that a component has now are another set.
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

// inEachNode returns the first ranks of each node, this many, and the others.
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

// cutsOf returns numbers between 1 and n-1 at which n ranks may be cut: all of a few, else powers of two, halves and
// quarters, and whole nodes if they are few.
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
	alone := false // with a rank each
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

// memberSets returns the ways to place a component: where it is fixed, else one member on each rank of a set, or two
// on each of a few, and always whole replicas. Members that keep their number are dealt to the ranks of a set. Without
// the component it returns nil as the only way.
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

// moves returns the ways to place n members of a component that has as many now: as it is, or dealt to the ranks of a
// set.
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

// whole returns the ranks for one member each, or for n each if their number is no multiple of n.
func whole(ranks []int, n int) []int {
	if len(ranks)%n == 0 {
		return ranks
	}
	return repeated(ranks, n)
}

// dealt returns the ways to place n members on sets of ranks: each rank has as many as others, or one more.
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
