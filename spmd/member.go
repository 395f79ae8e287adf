package spmd

import (
	"fmt"
	"slices"
	"sync"
)

// A Member is one worker's place in its group: who it is, and how it reaches the others.
type Member struct {
	w     *World
	group *roster
	index int
	comms map[string]Comm

	mu   sync.Mutex
	mail []Comm // mail[k] reaches the members of all groups up to the k-th launched; nil where this group came later
}

// World returns the rank that the member lives on.
func (m *Member) World() *World { return m.w }

// Group returns the name of the member's group.
func (m *Member) Group() string { return m.group.spec.Name }

// Index returns the number of the member, 0..Size-1.
func (m *Member) Index() int { return m.index }

// Size returns the number of members of the group.
func (m *Member) Size() int { return len(m.group.spec.Ranks) }

// Comm returns the member's end of the group's communicator for a purpose, one of GroupSpec.Comms; it panics for another. Its rank is
// the member's index.
func (m *Member) Comm(purpose string) Comm {
	c, ok := m.comms[purpose]
	if !ok {
		panic(fmt.Sprintf("spmd: group %q has no communicator for %q, only for %q", m.Group(), purpose, m.group.spec.Comms))
	}
	return c
}

// A roster is what every rank knows of a launched group.
type roster struct {
	spec    GroupSpec
	order   int       // 0 for the group launched first
	first   int       // number of its member 0 among the members of all groups, in the order launched
	members []*Member // those of this rank
}

// enroll checks spec and makes its members of this rank, with their communicators.
func (w *World) enroll(spec GroupSpec) ([]*Member, error) {
	w.note("launch", spec.Name, spec.Ranks)
	if len(spec.Ranks) == 0 {
		return nil, fmt.Errorf("no members")
	}
	for i, r := range spec.Ranks {
		if r < 0 || r >= w.Size() {
			return nil, fmt.Errorf("member %d on rank %d, in a world of %d ranks", i, r, w.Size())
		}
	}
	w.mu.Lock()
	g := &roster{spec: spec, order: len(w.order)}
	if g.order > 0 {
		last := w.order[g.order-1]
		g.first = last.first + len(last.spec.Ranks)
	}
	_, twice := w.groups[spec.Name]
	w.groups[spec.Name] = g
	w.order = append(w.order, g)
	order := w.order
	w.mu.Unlock()
	if twice {
		return nil, fmt.Errorf("there is a group of this name")
	}

	for i, r := range spec.Ranks {
		if r == w.Rank() {
			g.members = append(g.members, &Member{w: w, group: g, index: i, comms: make(map[string]Comm), mail: make([]Comm, g.order)})
		}
	}
	if g.members != nil {
		for _, purpose := range spec.Comms {
			ends, err := w.NewComm(spec.Ranks, spec.Name+"/"+purpose)
			if err != nil {
				return nil, err
			}
			for i, m := range g.members {
				m.comms[purpose] = ends[i]
			}
		}
	}
	return g.members, w.connect(order)
}

// connect makes the communicator over the members of all groups launched so far: the two groups of a pair talk over
// that of the later one, so there are as many communicators as groups.
func (w *World) connect(order []*roster) error {
	var ranks []int
	for _, g := range order {
		ranks = append(ranks, g.spec.Ranks...)
	}
	if !slices.Contains(ranks, w.Rank()) {
		return nil
	}
	ends, err := w.NewComm(ranks, "mail/"+order[len(order)-1].spec.Name)
	if err != nil {
		return err
	}
	for _, g := range order {
		for _, m := range g.members {
			m.mu.Lock()
			m.mail = append(m.mail, ends[0])
			m.mu.Unlock()
			ends = ends[1:]
		}
	}
	return nil
}
