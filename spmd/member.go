package spmd

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// A Member is one worker's membership in a group. It holds the worker's number and communicators.
type Member struct {
	w     *World
	group *roster
	index int
	comms map[string]Comm

	recorder Recorder

	mu     sync.Mutex
	direct map[string]address // keyed by the name of the peer group
}

// An address holds the communicator by which a member reaches the members of another group.
type address struct {
	comm  Comm
	first int // number of the group's member 0 in comm
	size  int
}

// World returns the World of the rank that runs the member.
func (m *Member) World() *World { return m.w }

// Group returns the name of the member's group.
func (m *Member) Group() string { return m.group.spec.Name }

// Index returns the number of the member, 0..Size-1.
func (m *Member) Index() int { return m.index }

// Size returns the number of members of the group.
func (m *Member) Size() int { return len(m.group.spec.Ranks) }

// Comm returns the group's communicator for a purpose of GroupSpec.Comms. In this communicator the member's Rank is its
// Index. Comm panics for an unknown purpose.
func (m *Member) Comm(purpose string) Comm {
	c, ok := m.comms[purpose]
	if !ok {
		panic(fmt.Sprintf("spmd: group %q has no communicator for %q, only for %q", m.Group(), purpose,
			m.group.spec.Comms))
	}
	return c
}

// A roster is what a rank knows about a launched group. Every rank has a roster, even without members of the group.
type roster struct {
	spec    GroupSpec
	members []*Member // the members of this rank
}

// enroll checks spec and makes the members of this rank, with their communicators.
func (w *World) enroll(spec GroupSpec) ([]*Member, error) {
	w.note("launch", spec.Name, spec.Ranks)
	if len(spec.Ranks) == 0 {
		return nil, errors.New("no members")
	}
	for i, r := range spec.Ranks {
		if r < 0 || r >= w.Size() {
			return nil, fmt.Errorf("member %d on rank %d, in a world of %d ranks", i, r, w.Size())
		}
	}
	if err := checkAxes(spec); err != nil {
		return nil, err
	}
	g := &roster{spec: spec}
	for i, r := range spec.Ranks {
		if r == w.Rank() {
			m := &Member{w: w, group: g, index: i, comms: make(map[string]Comm), direct: make(map[string]address)}
			if w.newRecorder != nil {
				m.recorder = w.newRecorder(spec.Name, i)
			}
			g.members = append(g.members, m)
		}
	}
	w.mu.Lock()
	_, twice := w.groups[spec.Name]
	w.groups[spec.Name] = g
	w.mu.Unlock()
	if twice {
		return nil, errors.New("there is a group of this name")
	}
	if err := w.connect(g); err != nil {
		return nil, err
	}
	if g.members == nil {
		return nil, nil
	}
	return g.members, w.open(g)
}

// open makes the communicators among g's members.
func (w *World) open(g *roster) error {
	purposes := slices.Clone(g.spec.Comms)
	if slices.Contains(g.spec.Direct, g.spec.Name) {
		purposes = append(purposes, "direct")
	}
	ends, err := w.t.NewGroup(g.spec.Ranks, g.spec.Name, purposes)
	if err != nil {
		return err
	}
	for p := range ends {
		ends[p] = w.keep(ends[p])
	}
	for i, m := range g.members {
		for p, purpose := range g.spec.Comms {
			m.comms[purpose] = ends[p][i]
		}
		if len(purposes) > len(g.spec.Comms) {
			m.addPeers(g, ends[len(purposes)-1][i], 0)
		}
	}
	if w.job.opts.Debug && g.members[0].index == 0 {
		return w.logSpace()
	}
	return nil
}

// logSpace writes the newest message space of this rank to the log.
func (w *World) logSpace() error {
	spaces, err := w.Spaces()
	if err != nil {
		return err
	}
	s := spaces[len(spaces)-1]
	w.job.mu.Lock()
	defer w.job.mu.Unlock()
	fmt.Fprintf(w.job.opts.Log, "group %q: ranks %v\n", s.Name, s.Ranks)
	return nil
}

// connect makes the communicators between g and the other groups of spec.Direct.
func (w *World) connect(g *roster) error {
	for _, name := range g.spec.Direct {
		w.mu.Lock()
		peers := w.groups[name]
		w.mu.Unlock()
		if peers == nil {
			return fmt.Errorf("direct messages to %q: there is no such group yet", name)
		}
		ranks := slices.Concat(peers.spec.Ranks, g.spec.Ranks)
		if peers == g || !slices.Contains(ranks, w.Rank()) {
			continue
		}
		ends, err := w.NewComm(ranks, g.spec.Name+"/direct/"+name)
		if err != nil {
			return err
		}
		for _, m := range peers.members {
			m.addPeers(g, ends[0], len(peers.spec.Ranks))
			ends = ends[1:]
		}
		for i, c := range ends {
			g.members[i].addPeers(peers, c, 0)
		}
	}
	return nil
}

// addPeers records that c reaches the members of g. Member i of g is member offset+i of c.
func (m *Member) addPeers(g *roster, c Comm, offset int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.direct[g.spec.Name] = address{c, offset, len(g.spec.Ranks)}
}
