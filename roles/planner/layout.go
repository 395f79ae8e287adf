package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/spmd"
)

// A Layout places the members of a job's components on ranks.
type Layout struct {
	Nodes   []int `json:"nodes"`         // the node of each rank
	Actor   []int `json:"actor"`         // the rank of each actor
	Rollout []int `json:"rollout"`       // the rank of each rollout worker; empty: the job has none
	Env     []int `json:"env,omitempty"` // the rank of each env worker; empty: the job has none
	// Stages is S: each env worker's environments, or each rollout worker's prompts, are split into S parts.
	Stages int `json:"stages"`
}

// String names the ranks of the components, as actor 0-1, env 0, rollout 1, 2 stages.
func (l Layout) String() string {
	var parts []string
	for _, c := range l.components() {
		parts = append(parts, c.name+" "+spmd.PlacementOf(c.ranks))
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
	ranks []int
}

// components returns the components that have members.
func (l *Layout) components() (list []component) {
	for _, c := range []component{{"actor", l.Actor}, {"env", l.Env}, {"rollout", l.Rollout}} {
		if len(c.ranks) > 0 {
			list = append(list, c)
		}
	}
	return list
}

// Ranks returns the ranks of a component's members; nil if it has none.
func (l *Layout) Ranks(component string) []int {
	for _, c := range l.components() {
		if c.name == component {
			return c.ranks
		}
	}
	return nil
}

// Moves are the numbers of members that have another rank in one layout than in another.
type Moves struct{ Actors, Envs, Rollouts int }

// All returns the number of members of all components.
func (m Moves) All() int { return m.Actors + m.Envs + m.Rollouts }

// Moves returns what changes its rank on the way from a layout with as many members to l.
func (l *Layout) Moves(from *Layout) Moves {
	count := func(to, from []int) (n int) {
		for i := range to {
			if to[i] != from[i] {
				n++
			}
		}
		return n
	}
	return Moves{count(l.Actor, from.Actor), count(l.Env, from.Env), count(l.Rollout, from.Rollout)}
}

// Idle returns the number of ranks without a member.
func (l *Layout) Idle() int {
	used := make([]bool, len(l.Nodes))
	for _, c := range l.components() {
		for _, r := range c.ranks {
			used[r] = true
		}
	}
	idle := 0
	for _, u := range used {
		if !u {
			idle++
		}
	}
	return idle
}

// parts counts what moves: members, further stages, and components on other ranks than the actors.
func (c *choice) parts() int {
	n := c.stages - 1
	for _, g := range []*group{c.actor, c.env, c.rollout} {
		if g == nil {
			continue
		}
		n += len(g.ranks)
		if !slices.Equal(g.bits, c.actor.bits) {
			n++
		}
	}
	return n
}

// simpler compares layouts of equal times: those that are nearer to the present layout come first if members move from
// there, then those with fewer parts, and of as many parts those with fewer idle ranks.
func (s *Space) simpler(a, b *Layout) int {
	moves := 0
	if s.Move {
		moves = a.Moves(s.Present).All() - b.Moves(s.Present).All()
	}
	return cmp.Or(moves, newChoice(a).parts()-newChoice(b).parts(), a.Idle()-b.Idle())
}

// key is equal for equal layouts of one world.
func (l *Layout) key() string {
	of := spmd.PlacementOf
	return fmt.Sprint(of(l.Actor), "|", of(l.Env), "|", of(l.Rollout), "|", l.Stages)
}

// A Route carries the rows of one stage between an env worker and a rollout worker.
type Route struct {
	Env, Rollout, Stage int
	Rows                int  // environments
	Inline              bool // the rollout worker steps these environments itself
}

// RoutesOf returns the routes of n environments, as the plan of a job has them: the environments of a stage on all env
// workers, end to end, are divided evenly among the rollout workers.
func RoutesOf(n int, l *Layout) (list []Route) {
	batch := n / l.Stages
	each, share := batch/len(l.Env), batch/len(l.Rollout)
	for s := range l.Stages {
		first := len(list)
		for at := 0; at < batch; {
			e, r := at/each, at/share
			end := min((e+1)*each, (r+1)*share)
			list = append(list, Route{Env: e, Rollout: r, Stage: s, Rows: end - at})
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
