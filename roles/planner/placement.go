package planner

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/spmd"
)

// A Placement places the members of a job's components on ranks.
type Placement struct {
	Nodes   []int `json:"nodes"`         // the node of each rank
	Actor   []int `json:"actor"`         // the rank of each actor
	Rollout []int `json:"rollout"`       // the rank of each rollout worker; empty if the job has none
	Env     []int `json:"env,omitempty"` // the rank of each env worker; empty if the job has none
	// Reward, Inference and Critic are the ranks of other workers. A list is empty if the job has no such workers.
	Reward    []int `json:"reward,omitempty"`
	Inference []int `json:"inference,omitempty"`
	Critic    []int `json:"critic,omitempty"`
	// Stages is S. Each env worker splits its environments into S stages. In a job with prompts, each rollout worker
	// splits its prompts into S stages.
	Stages int `json:"stages"`
	// Meshes has the mesh of each component that shards a model.
	Meshes map[string]mesh.Mesh `json:"meshes,omitempty"`
	// Threads has the numbers of threads of each actor and each rollout worker, in a job with a language model.
	// Inference and critic workers have as many threads as an actor.
	Threads map[string]int `json:"threads,omitempty"`
}

// String describes the layout, for example "actor 0-1, env 0, rollout 1, 2 stages".
func (l Placement) String() string {
	var parts []string
	for _, name := range l.Components() {
		text := name + " " + spmd.PlacementOf(l.Ranks(name))
		if divided := l.Meshes[name].String(); divided != "" {
			text += " (" + divided + ")"
		}
		if n := l.Threads[name]; n > 1 {
			text += fmt.Sprintf(" with %d threads each", n)
		}
		parts = append(parts, text)
	}
	text := strings.Join(parts, ", ")
	if l.Stages > 1 {
		text += fmt.Sprintf(", %d stages", l.Stages)
	}
	return text
}

// A component is a named group of members.
type component struct {
	name  string
	ranks *[]int
}

// components returns the components that a job may have, in the order in which texts name them.
func (l *Placement) components() [6]component {
	return [...]component{{"actor", &l.Actor}, {"env", &l.Env}, {"rollout", &l.Rollout}, {"reward", &l.Reward},
		{"inference", &l.Inference}, {"critic", &l.Critic}}
}

// Components returns the names of the components that have members.
func (l *Placement) Components() (names []string) {
	for _, c := range l.components() {
		if len(*c.ranks) > 0 {
			names = append(names, c.name)
		}
	}
	return names
}

// Ranks returns the ranks of a component's members. It returns nil if there are none.
func (l *Placement) Ranks(component string) []int {
	for _, c := range l.components() {
		if c.name == component && len(*c.ranks) > 0 {
			return *c.ranks
		}
	}
	return nil
}

// Place sets the ranks of a component's members. It ignores a component that a Placement does not have.
func (l *Placement) Place(component string, ranks []int) {
	for _, c := range l.components() {
		if c.name == component {
			*c.ranks = ranks
		}
	}
}

// MoveCounts counts the members of each component that have different ranks in two layouts.
type MoveCounts map[string]int

// All returns the sum over all components.
func (m MoveCounts) All() (n int) {
	for _, moved := range m {
		n += moved
	}
	return n
}

// Moves compares the ranks of members in l with those in an earlier layout. Both layouts must have equal numbers of
// members.
func (l *Placement) Moves(from *Placement) MoveCounts {
	moves := MoveCounts{}
	before := from.components()
	for i, c := range l.components() {
		for k, rank := range *c.ranks {
			if rank != (*before[i].ranks)[k] {
				moves[c.name]++
			}
		}
	}
	return moves
}

// Idle returns the ranks without a member.
func (l *Placement) Idle() (ranks []int) {
	used := make([]bool, len(l.Nodes))
	for _, c := range l.components() {
		for _, r := range *c.ranks {
			used[r] = true
		}
	}
	for r := range used {
		if !used[r] {
			ranks = append(ranks, r)
		}
	}
	return ranks
}

// bySimplicity orders layouts with equal times. If s.Move is true, layouts with fewer moves from the present layout
// come first. Then layouts with fewer parts come first (see choice.parts), and then those with fewer idle ranks.
func (s *SearchSpace) bySimplicity(a, b *Placement) int {
	moves := 0
	if s.Move {
		moves = a.Moves(s.Present).All() - b.Moves(s.Present).All()
	}
	return cmp.Or(moves, newChoice(a).parts()-newChoice(b).parts(), len(a.Idle())-len(b.Idle()))
}

// A Route carries the rows of one stage between an env worker and a rollout worker.
type Route struct {
	Env, Rollout, Stage int
	First, Rows         int  // the first environment, and the number of environments
	Inline              bool // the rollout worker steps these environments itself
}

// RoutesOf returns the routes of n environments. A job with the layout l uses the same routes. In each stage, the
// environments of all env workers form a sequence, which is divided evenly among the rollout workers.
func RoutesOf(n int, l *Placement) (list []Route) {
	batch := n / l.Stages
	each, share := batch/len(l.Env), batch/len(l.Rollout)
	for s := range l.Stages {
		first := len(list)
		for at := 0; at < batch; {
			e, r := at/each, at/share
			end := min((e+1)*each, (r+1)*share)
			list = append(list, Route{Env: e, Rollout: r, Stage: s, First: e*(n/len(l.Env)) + s*each + at - e*each,
				Rows: end - at})
			at = end
		}
		for i := first; i < len(list); i++ {
			x := &list[i]
			alone := (i == first || list[i-1].Env != x.Env) && (i+1 == len(list) || list[i+1].Env != x.Env)
			x.Inline = alone && l.Env[x.Env] == l.Rollout[x.Rollout]
		}
	}
	return list
}
