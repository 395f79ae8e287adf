package planner

import (
	"cmp"
	"math"
	"slices"

	"github.com/rlinf/rlinf/roles/mesh"
)

// A SearchSpace is the set of layouts that a Search may choose from.
type SearchSpace struct {
	Nodes []int // the node of each rank of the world
	// Fixed has the ranks of the components that a search does not place.
	Fixed map[string][]int
	// Further has the job's components other than actor, env and rollout, without those in Fixed. The value is the
	// number of replicas of the component. It is 0 if any number is allowed.
	Further map[string]int
	// Meshes has the mesh of each component that shards a model. Free marks the numbers of a mesh that a search may
	// change. The number of replicas of the actors never changes.
	Meshes map[string]mesh.Mesh
	Free   map[string]Axes
	// Threads has the fixed numbers of threads of actors and rollout workers. If a component has no entry, a search
	// chooses the number.
	Threads map[string]int
	// Runs reports whether a job that is configured with l runs its members on exactly the ranks of l. If Runs is nil,
	// every job does.
	Runs func(l *Placement) bool
	// Groups are other sets of ranks that members may use, such as the ranks of a node group.
	Groups [][]int
	// Eval is the number of environments in evaluations. It is 0 if there are no evaluations. In evaluations, groups of
	// EvalGroup environments begin in the same state.
	Eval, EvalGroup int
	// Stages is the number of stages of all layouts. If it is 0, a search chooses the number.
	Stages int
	// If Idle is true, layouts may have ranks without members.
	Idle bool
	// Present is the layout that the job has now. It may be nil. A search always tries it.
	Present *Placement
	// If Move is true, the numbers of members and stages are those of Present. Only the ranks of members may change.
	Move bool
}

// Allows reports whether l has the nodes, stages, threads, ranks and meshes that the space fixes.
func (s *SearchSpace) Allows(l *Placement) bool {
	if !slices.Equal(l.Nodes, s.Nodes) || s.Stages > 0 && l.Stages != s.Stages {
		return false
	}
	for name, n := range s.Threads {
		if max(1, l.Threads[name]) != n {
			return false
		}
	}
	for _, of := range l.components() {
		fixed, now := s.Fixed[of.name], l.Meshes[of.name].Full()
		if fixed != nil && !slices.Equal(*of.ranks, fixed) || s.Free[of.name].merge(s.Meshes[of.name], now) != now {
			return false
		}
	}
	return true
}

// choices returns the layouts of the space that fit the job, without the components of Further. Each layout occurs
// once, in a fixed order.
func (s *SearchSpace) choices(m *Machine, p *Profile) (list []choice) {
	w := &p.Work
	stages := []int{1, 2, 4}
	if s.Move {
		stages = []int{s.Present.Stages}
	} else if s.Stages > 0 {
		stages = []int{s.Stages}
	} else if w.Envs == 0 {
		stages = stages[:1] // a second stage of prompts would only wait for the first
	}
	sets := s.sets()
	actors, envs := s.actors(m, p, sets), s.groups(s.memberSets(w.Envs > 0, "env", mesh.Mesh{}, sets), mesh.Mesh{})
	for _, r := range s.rollouts(w, sets) {
		trips := make([]level, len(actors))
		for i, a := range actors {
			if r != nil {
				trips[i] = meet(r, a, s.Nodes).worst
			}
		}
		for _, e := range envs {
			if !s.compatible(e, r) {
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

// rollouts returns the placements that a search tries for the rollout workers, with each of their meshes.
func (s *SearchSpace) rollouts(w *Workload, sets [][]int) (list []*group) {
	for _, by := range s.meshes(w, "rollout", 1) {
		list = append(list, s.groups(s.memberSets(w.Envs+w.Prompts > 0, "rollout", by, sets), by)...)
	}
	return list
}

// mostMeshes is the maximum number of actor meshes that a search tries.
const mostMeshes = 5

// actors returns the placements that a search tries for the actors. From more than mostMeshes meshes it selects the
// configured mesh, the meshes with the fastest updates, and the mesh with the least memory per member.
func (s *SearchSpace) actors(m *Machine, p *Profile, sets [][]int) (list []*group) {
	w := &p.Work
	type placed struct {
		groups  []*group
		seconds float64 // seconds of the fastest update
		bytes   int64   // memory of a member
	}
	var all []placed
	for _, by := range s.meshes(w, "actor", w.Actors) {
		x := placed{s.groups(s.actorSets(w, by, sets), by), math.Inf(1), w.part(by).Actor}
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

// meshes returns the meshes that a search tries for a component. The configured mesh comes first. Every other mesh must
// allow this many replicas with a rank for each member.
func (s *SearchSpace) meshes(w *Workload, component string, replicas int) []mesh.Mesh {
	now, free := s.Meshes[component].Full(), s.Free[component]
	list := []mesh.Mesh{now}
	for _, x := range w.Model.Parts {
		if other := free.merge(now, x.Mesh); other == x.Mesh && other != now && !s.Move &&
			other.Members()*replicas <= len(s.Nodes) {
			list = append(list, other)
		}
	}
	return list
}

// groups returns a group for each set of ranks. The group of an empty set is nil.
func (s *SearchSpace) groups(sets [][]int, by mesh.Mesh) (list []*group) {
	for _, ranks := range sets {
		list = append(list, newGroup(ranks, s.Nodes, by))
	}
	return list
}

// compatible reports whether a search tries these ranks for env and rollout workers. Unless one of the two is fixed,
// they must have the same ranks, or no rank in common.
func (s *SearchSpace) compatible(env, rollout *group) bool {
	return env == nil || s.Fixed["env"] != nil || s.Fixed["rollout"] != nil || slices.Equal(env.ranks, rollout.ranks) ||
		env.disjoint(rollout)
}

// divides reports whether the members can divide the work of a job: its environments or prompts, and the environments
// of its evaluations.
func (s *SearchSpace) divides(w *Workload, env, rollout *group, stages int) bool {
	l := Placement{Stages: stages}
	if env != nil {
		l.Env = env.ranks
	}
	if rollout != nil {
		l.Rollout = rollout.ranks
		l.Meshes = map[string]mesh.Mesh{"rollout": rollout.mesh}
	}
	return fits(w, &l) && (s.Eval == 0 || env == nil || s.Eval%(len(l.Env)*max(1, s.EvalGroup)) == 0 &&
		s.Eval%len(l.Rollout) == 0)
}

// begins reports whether a search tries c, alone or with further components. Many layouts differ only in their ranks.
// Without s.Fixed, s.Groups and s.Move, the search tries only those that use rank 0. In a world of one node they must
// also have no gaps.
func (s *SearchSpace) begins(c *choice) bool {
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

// runs is SearchSpace.Runs for the layout of c.
func (s *SearchSpace) runs(c *choice) bool {
	if s.Runs == nil {
		return true
	}
	l := c.layout()
	return s.Runs(&l)
}

// fits reports whether the environments or prompts of a job can be divided among the members of l. The members of each
// component must form complete replicas.
func fits(w *Workload, l *Placement) bool {
	for _, of := range l.components() {
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
