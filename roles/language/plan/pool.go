package plan

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/spmd"
)

// pooled are the components whose ranks are one pool with cluster.auto_scheduler.
var pooled = []string{"actor", "rollout", "inference"}

// pool makes one pool of the ranks of actors, rollout and inference workers. Every rank gets a rollout worker, and an
// inference worker if this component has a place. The number of actors stays, and they are spread over the ranks. So a
// rank answers while there are prompts, infers for complete groups, and trains its actors' share. With
// cluster.use_pre_process_policy false, the ranks that the configuration gives to actors get no rollout worker. pool
// reports whether the pool can be made. If a placement names every member, members have moved, and the pool exists
// already.
func (d *Draft) pool(nodes []int) bool {
	if d.Config.Fixed() {
		return true
	}
	named := map[string][]int{}
	for _, of := range pooled {
		if d.Placement.Has(of) {
			named[of] = d.Placement.Ranks(of)
		}
	}
	to := PoolOf(d.Config, named)
	if len(to["rollout"]) == 0 {
		d.found.Problem("cluster.use_pre_process_policy", false,
			"true, or rollout workers on ranks without actors: no rank would answer")
		return false
	}
	if !d.replace(to, nodes) {
		return false
	}
	ranks := union(named)
	if n := len(slices.Compact(slices.Clone(to["actor"]))); n < len(ranks) {
		d.notes = append(d.notes, fmt.Sprintf("cluster.auto_scheduler: %d of the %d ranks that answer or train will "+
			"train: with %d actors all would", n, len(ranks), len(ranks)))
	}
	return true
}

// PoolOf returns the ranks of the members of a pool. named has the ranks that the configuration gives to actors,
// rollout and inference workers. The pool has inference workers only if named has some.
func PoolOf(cfg *config.Config, named map[string][]int) map[string][]int {
	ranks := union(named)
	to := map[string][]int{"actor": spread(named["actor"], ranks), "rollout": ranks}
	if !cfg.Cluster.UsePreProcessPolicy {
		to["rollout"] = slices.DeleteFunc(slices.Clone(ranks), func(r int) bool {
			return slices.Contains(named["actor"], r)
		})
	}
	if len(named["inference"]) > 0 {
		to["inference"] = ranks
	}
	return to
}

// union returns all ranks that are named, each once.
func union(named map[string][]int) (ranks []int) {
	for _, of := range pooled {
		ranks = append(ranks, named[of]...)
	}
	slices.Sort(ranks)
	return slices.Compact(ranks)
}

// spread spreads members over ranks in ascending order. named has the present ranks of the members. If there are more
// ranks than members, and each member has its own rank, the members stay where they are.
func spread(named, ranks []int) []int {
	if len(named) < len(ranks) && len(slices.Compact(slices.Sorted(slices.Values(named)))) == len(named) {
		return named
	}
	to := make([]int, len(named))
	for i := range to {
		to[i] = ranks[i*len(ranks)/len(to)]
	}
	return to
}

// replace makes a new placement. The map to has the new ranks of some components. The other components stay where they
// are. replace reports whether this is possible.
func (d *Draft) replace(to map[string][]int, nodes []int) bool {
	c := spmd.Cluster{AllowIdleRanks: true}
	add := func(of string, ranks []int) {
		c.Components = append(c.Components, spmd.ComponentPlacement{Key: of, Placement: spmd.PlacementOf(ranks)})
	}
	for _, of := range d.Placement.Components() {
		if ranks, moved := to[of]; moved {
			add(of, ranks)
		} else {
			add(of, d.Placement.Ranks(of))
		}
	}
	if !d.Placement.Has("rollout") {
		add("rollout", to["rollout"])
	}
	place, err := spmd.Place(c, nodes)
	if err != nil {
		d.found.Problem("cluster.auto_scheduler", true, "ranks in ascending order: "+err.Error())
		return false
	}
	d.Placement = place
	return true
}
