package planner

import (
	"cmp"
	"math"
	"slices"
)

// A Space is the set of layouts that a Search looks at.
type Space struct {
	Nodes []int // the node of each rank of the world
	// Fixed are the ranks of components that stay where they are.
	Fixed map[string][]int
	// Further has the components of the job beside actor, env and rollout, unless they are fixed. The value is the
	// number of replicas that a component keeps, or 0 if any number is allowed.
	Further map[string]int
	// Meshes say which components divide models, and how. Free says which numbers of a mesh may change. The number of
	// replicas of the actors never changes.
	Meshes map[string]Mesh
	Free   map[string]Axes
	// Threads has the fixed numbers of threads of actors and rollout workers. Without an entry the number is free.
	Threads map[string]int
	// Runs reports whether a job that is given the layout l really runs with l. If Runs is nil, every job does.
	Runs func(l *Layout) bool
	// Groups are sets of ranks that a component may have to itself, such as the ranks of a node group.
	Groups [][]int
	// Eval is the number of environments in evaluations, or 0 without evaluations. EvalGroup is the number of these
	// environments that begin in the same state.
	Eval, EvalGroup int
	// Stages is the number of stages that all layouts have. If it is 0, layouts may have different numbers.
	Stages int
	// Idle allows layouts that leave ranks without members.
	Idle bool
	// Present is the layout that the job has now, or nil. A search always looks at it.
	Present *Layout
	// Move keeps the present numbers of members and stages. Only the ranks of members may change.
	Move bool
}

// Allows reports whether l agrees with everything that the space fixes.
func (s *Space) Allows(l *Layout) bool {
	if !slices.Equal(l.Nodes, s.Nodes) || s.Stages > 0 && l.Stages != s.Stages {
		return false
	}
	for name, n := range s.Threads {
		if max(1, l.Threads[name]) != n {
			return false
		}
	}
	for _, of := range l.all() {
		fixed, mesh := s.Fixed[of.name], l.Meshes[of.name].size()
		if fixed != nil && !slices.Equal(*of.ranks, fixed) || s.Free[of.name].of(s.Meshes[of.name], mesh) != mesh {
			return false
		}
	}
	return true
}

// choices returns the layouts of the space that a job can have, each once, in a fixed order.
func (s *Space) choices(m *Machine, p *Profile) (list []choice) {
	w := &p.Work
	stages := []int{1, 2, 4}
	if s.Move {
		stages = []int{s.Present.Stages}
	} else if s.Stages > 0 {
		stages = []int{s.Stages}
	} else if w.Envs == 0 {
		stages = stages[:1] // later rounds of answers only wait for earlier ones
	}
	sets := s.sets()
	actors, envs := s.actors(m, p, sets), s.groups(s.memberSets(w.Envs > 0, "env", Mesh{}, sets), Mesh{})
	for _, r := range s.rollouts(w, sets) {
		trips := make([]level, len(actors))
		for i, a := range actors {
			if r != nil {
				trips[i] = meet(r, a, s.Nodes).worst
			}
		}
		for _, e := range envs {
			if !s.together(e, r) {
				continue
			}
			var steps meeting
			if e != nil {
				steps = meet(e, r, s.Nodes)
			}
			for _, n := range stages {
				if !s.divides(w, e, r, n) {
					continue
				}
				for i, a := range actors {
					c := choice{nodes: s.Nodes, actor: a, env: e, rollout: r, stages: n, steps: steps, trips: trips[i]}
					if s.begins(&c) && s.runs(&c) {
						list = append(list, c)
					}
				}
			}
		}
	}
	return list
}

// rollouts returns the ways to place rollout workers, with each mesh that they may have.
func (s *Space) rollouts(w *Work, sets [][]int) (list []*group) {
	for _, mesh := range s.meshes(w, "rollout", 1) {
		list = append(list, s.groups(s.memberSets(w.Envs+w.Prompts > 0, "rollout", mesh, sets), mesh)...)
	}
	return list
}

// mostMeshes bounds the meshes of actors that a search looks at.
const mostMeshes = 5

// actors returns the ways to place the actors. If there are many meshes, it keeps those with the fastest updates, and
// the mesh whose members need the least memory.
func (s *Space) actors(m *Machine, p *Profile, sets [][]int) (list []*group) {
	w := &p.Work
	type placed struct {
		groups  []*group
		seconds float64 // of the fastest update
		bytes   int64   // of a member
	}
	var all []placed
	for _, mesh := range s.meshes(w, "actor", w.Actors) {
		x := placed{s.groups(s.actorSets(w, mesh, sets), mesh), math.Inf(1), w.part(mesh).Actor}
		for _, g := range x.groups {
			c := choice{nodes: s.Nodes, actor: g}
			if c.excess(m, w) == 0 {
				x.seconds = min(x.seconds, c.train(m, p).Seconds)
			}
		}
		all = append(all, x)
	}
	if rest := all[1:]; len(all) > mostMeshes {
		slices.SortStableFunc(rest, func(a, b placed) int { return cmp.Compare(a.seconds, b.seconds) })
		few := rest[:mostMeshes-2]
		least := slices.MinFunc(rest[len(few):], func(a, b placed) int { return cmp.Compare(a.bytes, b.bytes) })
		all = append(append(all[:1:1], few...), least)
	}
	for _, x := range all {
		list = append(list, x.groups...)
	}
	return list
}

// meshes returns the ways in which the members of a component may divide a model, first the way of the configuration.
// For every other mesh, the world has a rank for each member of this many replicas.
func (s *Space) meshes(w *Work, component string, replicas int) []Mesh {
	now, free := s.Meshes[component].size(), s.Free[component]
	list := []Mesh{now}
	for _, x := range w.Model.Parts {
		if mesh := free.of(now, x.Mesh); mesh == x.Mesh && mesh != now && !s.Move &&
			mesh.Members()*replicas <= len(s.Nodes) {
			list = append(list, mesh)
		}
	}
	return list
}

// groups returns the group for each set of ranks. The group of an empty set is nil.
func (s *Space) groups(sets [][]int, mesh Mesh) (list []*group) {
	for _, ranks := range sets {
		list = append(list, newGroup(ranks, s.Nodes, mesh))
	}
	return list
}

// together reports whether env and rollout workers may be on these ranks. Unless one component is fixed, both must have
// the same ranks, or no rank in common.
func (s *Space) together(env, rollout *group) bool {
	return env == nil || s.Fixed["env"] != nil || s.Fixed["rollout"] != nil || slices.Equal(env.ranks, rollout.ranks) ||
		env.disjoint(rollout)
}

// divides reports whether the environments or prompts of a job, and the environments of its evaluations, can be divided
// among the members.
func (s *Space) divides(w *Work, env, rollout *group, stages int) bool {
	l := Layout{Stages: stages}
	if env != nil {
		l.Env = env.ranks
	}
	if rollout != nil {
		l.Rollout = rollout.ranks
		l.Meshes = map[string]Mesh{"rollout": rollout.mesh}
	}
	return fits(w, &l) && (s.Eval == 0 || env == nil || s.Eval%(len(l.Env)*max(1, s.EvalGroup)) == 0 &&
		s.Eval%len(l.Rollout) == 0)
}

// begins reports whether the space has the layout of c, which may still lack further components. Without fixed
// components, groups and moves, layouts that differ only in which ranks they use count as one. Of these, the space has
// the layout that begins at the first rank and, on one node, leaves out no rank.
func (s *Space) begins(c *choice) bool {
	free := len(s.Fixed) == 0 && len(s.Groups) == 0 && !s.Move
	oneNode := len(c.actor.perNode) == 1
	var gap, idle bool
	for i := range c.actor.bits {
		used := c.used(i)
		if free && i == 0 && used&1 == 0 {
			return false
		}
		all := ^uint64(0)
		if rest := len(s.Nodes) - 64*i; rest < 64 {
			all = 1<<max(0, rest) - 1
		}
		gap = gap || idle && used != 0 || used&(used+1) != 0
		idle = idle || used != all
	}
	return (s.Idle || !idle || len(s.Further) > 0) && !(free && oneNode && gap)
}

// runs reports whether a job that is given the layout of c runs with it: see Space.Runs.
func (s *Space) runs(c *choice) bool {
	if s.Runs == nil {
		return true
	}
	l := c.layout()
	return s.Runs(&l)
}

// fits reports whether the environments or prompts of a job can be divided among the members of l, and whether these
// form whole replicas.
func fits(w *Work, l *Layout) bool {
	for _, of := range l.all() {
		if len(*of.ranks)%l.Meshes[of.name].Members() != 0 {
			return false
		}
	}
	if w.Envs > 0 && len(l.Env) > 0 {
		e, r := len(l.Env), len(l.Rollout)
		return w.Envs%(e*l.Stages*w.Group) == 0 && w.Envs%(r*l.Stages) == 0 && (!w.Async || e%r == 0)
	}
	if w.Prompts > 0 {
		n, members := len(l.Rollout), l.Meshes["rollout"].Members()
		return n > 0 && n/members <= w.Prompts && l.Stages <= w.Prompts/(n/members)
	}
	return l.Stages == 1
}
