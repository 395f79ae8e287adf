package planner

import (
	"cmp"
	"slices"

	"github.com/rlinf/rlinf/roles/mesh"
)

// mostExtended is the number of choices at which extend stops.
const mostExtended = 5000

// otherNames returns the names of the job's components other than actor, env and rollout.
func (s *SearchSpace) otherNames() (names []string) {
	all := new(Placement).components()
	for _, of := range all[3:] {
		if _, has := s.Further[of.name]; has || s.Fixed[of.name] != nil {
			names = append(names, of.name)
		}
	}
	return names
}

// extend adds the components of otherNames to the choices in list. It places a component on the ranks of the actors,
// the ranks of the rollout workers, or idle ranks: on all of them or only the first. It starts with the fastest choices
// that fit into memory. Of choices that differ only in their ranks, it extends one.
func (s *SearchSpace) extend(m *Machine, p *Profile, list []choice) (extended []choice) {
	names := s.otherNames()
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
			if before.choice = b.choice; before == b { // they differ only in their ranks
				continue
			}
		}
		if extended = s.place(&p.Work, *b.choice, names, extended); len(extended) >= mostExtended {
			break
		}
	}
	return slices.DeleteFunc(extended, func(c choice) bool { return !s.Idle && c.idle() > 0 })
}

// place extends c by the components in names, in all placements that the space allows. It appends the results to list.
func (s *SearchSpace) place(w *Workload, c choice, names []string, list []choice) []choice {
	if len(names) == 0 {
		if c.detour(); s.runs(&c) {
			list = append(list, c)
		}
		return list
	}
	l := c.layout()
	all := l.components()
	at := slices.IndexFunc(all[:], func(x component) bool { return x.name == names[0] })
	for _, by := range s.otherMeshes(names[0], c.actor.mesh) {
		for _, ranks := range s.otherSets(w, &l, names[0], by) {
			x := c
			*x.groups()[at] = newGroup(ranks, s.Nodes, by)
			list = s.place(w, x, names[1:], list)
		}
	}
	return list
}

// otherMeshes returns the meshes that a search tries for a component of otherNames: the configured mesh, the actors'
// mesh and the zero Mesh, as far as s.Free allows.
func (s *SearchSpace) otherMeshes(component string, actor mesh.Mesh) []mesh.Mesh {
	now := s.Meshes[component].Full()
	list := []mesh.Mesh{now}
	if s.Move {
		return list
	}
	for _, other := range []mesh.Mesh{actor, {}} {
		if by := s.Free[component].merge(now, other); !slices.Contains(list, by) {
			list = append(list, by)
		}
	}
	return list
}

// otherSets returns the placements that a search tries for a component of otherNames with this mesh.
func (s *SearchSpace) otherSets(w *Workload, l *Placement, component string, by mesh.Mesh) (list [][]int) {
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
	if s.Move { // the number of members does not change
		return s.moves(component, len(s.Present.Ranks(component)), sets)
	}
	members := by.Members()
	if n := s.Further[component]; n > 0 {
		return distribute(n*members, sets)
	}
	for _, set := range sets {
		// Each replica needs a prompt.
		if set = placeWhole(set, members); w.Prompts == 0 || len(set)/members <= w.Prompts {
			list = append(list, set)
		}
	}
	return list
}
