package plan

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/spmd"
)

// pooled are the components whose ranks become one pool with cluster.auto_scheduler.
var pooled = []string{"actor", "rollout", "inference"}

// pool joins the ranks of actors, rollout and inference workers into one pool: see PoolOf. So each rank can generate
// answers, infer and train. It reports whether the pool is possible. If members have moved, the placement is fixed, and
// the pool exists already.
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

// PoolOf returns the ranks of the members of a pool. configRanks has the ranks of each component in the configuration.
// Every rank of the pool gets a rollout worker, and an inference worker if the configuration places some. The actors
// are spread over the ranks, and keep their number. If cluster.use_pre_process_policy is false, the configured ranks of
// the actors get no rollout worker.
func PoolOf(cfg *config.Config, configRanks map[string][]int) map[string][]int {
	ranks := union(configRanks)
	to := map[string][]int{"actor": spread(configRanks["actor"], ranks), "rollout": ranks}
	if !cfg.Cluster.UsePreProcessPolicy {
		to["rollout"] = slices.DeleteFunc(slices.Clone(ranks), func(r int) bool {
			return slices.Contains(configRanks["actor"], r)
		})
	}
	if len(configRanks["inference"]) > 0 {
		to["inference"] = ranks
	}
	return to
}

// union returns the ranks of all components, in ascending order, without duplicates.
func union(named map[string][]int) (ranks []int) {
	for _, of := range pooled {
		ranks = append(ranks, named[of]...)
	}
	slices.Sort(ranks)
	return slices.Compact(ranks)
}

// spread spreads members evenly over ranks. present has the members' present ranks. If there are more ranks than
// members, and each member has its own rank, the members keep their ranks.
func spread(present, ranks []int) []int {
	if len(present) < len(ranks) && len(slices.Compact(slices.Sorted(slices.Values(present)))) == len(present) {
		return present
	}
	to := make([]int, len(present))
	for i := range to {
		to[i] = ranks[i*len(ranks)/len(to)]
	}
	return to
}

// replace makes a new placement. newRanks has the new ranks of some components. All other components keep their ranks.
// replace reports whether the placement is possible.
func (d *Draft) replace(newRanks map[string][]int, nodes []int) bool {
	c := spmd.Components{AllowIdleRanks: true}
	add := func(of string, ranks []int) {
		c.Components = append(c.Components, spmd.ComponentPlacement{Key: of, Placement: spmd.PlacementOf(ranks)})
	}
	for _, of := range d.Placement.Components() {
		if ranks, moved := newRanks[of]; moved {
			add(of, ranks)
		} else {
			add(of, d.Placement.Ranks(of))
		}
	}
	if !d.Placement.Has("rollout") {
		add("rollout", newRanks["rollout"])
	}
	place, err := spmd.Place(c, nodes)
	if err != nil {
		d.found.Problem("cluster.auto_scheduler", true, "ranks in ascending order: "+err.Error())
		return false
	}
	d.Placement = place
	return true
}
