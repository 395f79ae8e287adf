package planner

import (
	"cmp"
	"slices"
)

// mostExtended bounds the choices with further components that a search looks at.
const mostExtended = 5000

// further returns the names of the components that the layouts of the space have beside actor, env and rollout.
func (s *Space) further() (names []string) {
	all := new(Layout).all()
	for _, of := range all[3:] {
		if _, has := s.Further[of.name]; has || s.Fixed[of.name] != nil {
			names = append(names, of.name)
		}
	}
	return names
}

// extend adds the further components to choices without them. It places a component on the ranks of the actors, on the
// ranks of the rollout workers, or on idle ranks. It uses all of these ranks, or only the first. Choices that fit into
// memory and are fastest without further components come first. Of choices that differ only in which ranks they use,
// extend keeps one.
func (s *Space) extend(m *Machine, p *Profile, list []choice) (extended []choice) {
	names := s.further()
	if len(names) == 0 {
		return list
	}
	type base struct {
		*choice
		excess              int64 // bytes that a node lacks
		seconds             float64
		parts, idle, stages int
	}
	bases := make([]base, len(list))
	for i := range list {
		c := &list[i]
		_, seconds := c.phases(m, p, c.generate(m, p))
		bases[i] = base{c, c.excess(m, &p.Work), seconds, c.parts(), c.idle(), c.stages}
	}
	slices.SortStableFunc(bases, func(a, b base) int {
		return cmp.Or(cmp.Compare(a.excess, b.excess), cmp.Compare(a.seconds, b.seconds), a.parts-b.parts,
			a.idle-b.idle, a.stages-b.stages)
	})
	for i, b := range bases {
		if i > 0 {
			before := bases[i-1]
			if before.choice = b.choice; before == b { // they differ only in which ranks they use
				continue
			}
		}
		if extended = s.place(&p.Work, *b.choice, names, extended); len(extended) >= mostExtended {
			break
		}
	}
	return slices.DeleteFunc(extended, func(c choice) bool { return !s.Idle && c.idle() > 0 })
}

// place adds the components in names to c at every place that the space allows, and appends the results to list.
func (s *Space) place(w *Work, c choice, names []string, list []choice) []choice {
	if len(names) == 0 {
		if c.detour(); s.runs(&c) {
			list = append(list, c)
		}
		return list
	}
	l := c.layout()
	all := l.all()
	at := slices.IndexFunc(all[:], func(x component) bool { return x.name == names[0] })
	for _, mesh := range s.furtherMeshes(names[0], c.actor.mesh) {
		for _, ranks := range s.furtherSets(w, &l, names[0], mesh) {
			x := c
			*x.all()[at] = newGroup(ranks, s.Nodes, mesh)
			list = s.place(w, x, names[1:], list)
		}
	}
	return list
}

// furtherMeshes returns the ways in which a further component may divide a model: as the configuration says, as the
// actors do, or not at all.
func (s *Space) furtherMeshes(component string, actor Mesh) []Mesh {
	now := s.Meshes[component].size()
	list := []Mesh{now}
	if s.Move {
		return list
	}
	for _, other := range []Mesh{actor, {}} {
		if mesh := s.Free[component].of(now, other); !slices.Contains(list, mesh) {
			list = append(list, mesh)
		}
	}
	return list
}

// furtherSets returns the ways to place a further component in l. The component divides its model by mesh.
func (s *Space) furtherSets(w *Work, l *Layout, component string, mesh Mesh) (list [][]int) {
	if fixed := s.Fixed[component]; fixed != nil {
		return [][]int{fixed}
	}
	var sets [][]int
	for _, ranks := range [][]int{l.Actor, l.Rollout, l.Idle()} {
		ranks = slices.Compact(slices.Clone(ranks))
		for _, set := range [][]int{ranks, ranks[:min(1, len(ranks))]} {
			if len(set) > 0 && !slices.ContainsFunc(sets, func(x []int) bool { return slices.Equal(x, set) }) {
				sets = append(sets, set)
			}
		}
	}
	if s.Move { // the number of members stays, and so may their ranks
		return s.moves(component, len(s.Present.Ranks(component)), sets)
	}
	members := mesh.Members()
	if n := s.Further[component]; n > 0 {
		return dealt(n*members, sets)
	}
	for _, set := range sets {
		if set = whole(set, members); w.Prompts == 0 || len(set)/members <= w.Prompts { // each replica has a prompt
			list = append(list, set)
		}
	}
	return list
}
