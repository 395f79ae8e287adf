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
	// Further are the components that the job has beside actor, env and rollout, unless they are fixed, with the number
	// of replicas that each keeps; 0: any number.
	Further map[string]int
	// Meshes say which components divide models, and how. Free has the numbers in them that may change. The number of
	// models that the actors have stays.
	Meshes map[string]Mesh
	Free   map[string]Axes
	// Threads are the only numbers of threads of actors and of rollout workers; without one it is free.
	Threads map[string]int
	// Runs reports whether a job that is given a layout runs with that layout. nil: it does.
	Runs func(l *Layout) bool
	// Groups are sets of ranks that a component may have to itself, such as those of a node group.
	Groups [][]int
	// Eval is the number of environments of evaluations, and EvalGroup those that begin alike; 0: no evaluations.
	Eval, EvalGroup int
	// Stages is the only number of stages; 0: free.
	Stages int
	// Idle allows layouts that leave ranks without members.
	Idle bool
	// Present is the layout that the job has now; nil: none. It is always looked at.
	Present *Layout
	// Move keeps the numbers of members and of stages that Present has: only the ranks of members may change.
	Move bool
}

// Allows reports whether l has all that the space leaves no choice about.
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

// actors returns the ways to place the actors. Of many meshes those count whose updates are fastest, and the one whose
// members need the least memory.
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

// meshes returns the ways in which the members of a component may divide a model, that of the configuration first. For
// each of the others there is a rank for each member of this many replicas.
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

// groups returns the groups of members on these ranks; nil stands for no members.
func (s *Space) groups(sets [][]int, mesh Mesh) (list []*group) {
	for _, ranks := range sets {
		list = append(list, newGroup(ranks, s.Nodes, mesh))
	}
	return list
}

// together reports whether env and rollout workers may be placed so: on the same ranks or apart, unless one is fixed.
func (s *Space) together(env, rollout *group) bool {
	return env == nil || s.Fixed["env"] != nil || s.Fixed["rollout"] != nil || slices.Equal(env.ranks, rollout.ranks) ||
		env.disjoint(rollout)
}

// divides reports whether the environments or prompts of a job, and those of its evaluations, can be divided.
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

// begins reports whether the space has a layout, which may have no further components yet. Without fixed components,
// groups and moves, layouts that differ by the numbers of ranks alone are one: it begins at the first rank, and on one
// node it leaves no rank out.
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

// runs reports whether a job that is given a choice runs so.
func (s *Space) runs(c *choice) bool {
	if s.Runs == nil {
		return true
	}
	l := c.layout()
	return s.Runs(&l)
}

// fits reports whether the environments or prompts of a job can be divided among a layout's members, which have whole
// replicas.
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
