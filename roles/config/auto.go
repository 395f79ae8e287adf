package config

import (
	"slices"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/spmd"
)

// PlacementAuto is the placement of a component whose ranks are planned when training starts. As the value of
// cluster.component_placement it applies to all components that a plan can place.
const PlacementAuto = "auto"

const placementKey = "cluster.component_placement"

// plannedComponents returns the components that a plan of the task places if cluster.component_placement is "auto".
func plannedComponents(task string) []string {
	switch task {
	case TaskSFT:
		return []string{"actor"}
	case TaskReasoning:
		return []string{"actor", "rollout"}
	}
	return []string{"actor", "env", "rollout"}
}

// PlacedBeside returns the optional components that the job places.
func (c *Config) PlacedBeside() []string {
	return slices.DeleteFunc(c.optionalComponents(), func(name string) bool { return !c.Places(name) })
}

// optionalComponents returns the optional components of the job's task. A plan can place them, too.
func (c *Config) optionalComponents() []string {
	switch c.Runner.TaskType {
	case TaskSFT:
		return nil
	case TaskReasoning:
		return []string{"reward", "inference", "critic"}
	}
	return []string{"reward", "inference"}
}

// Auto returns the components with the placement "auto", and the section cluster without them.
func (c *Config) Auto() (auto []string, others spmd.Components) {
	others = c.ClusterSpec()
	all := others.Components
	others.Components = nil
	for _, e := range all {
		if strings.TrimSpace(e.Placement) != PlacementAuto {
			others.Components = append(others.Components, e)
			continue
		}
		others.AllowIdleRanks = true
		auto = append(auto, config.Names(e.Key)...)
	}
	return auto, others
}

// Schedules reports whether the job has a scheduler that moves members to other ranks.
func (c *Config) Schedules() bool {
	return c.Cluster.AutoScheduler && c.Runner.TaskType == TaskEmbodied
}

// Extent returns the minimum number of ranks for the placement. wholeWorld is true if the placement depends on the size
// of the world: it uses all ranks, counts nodes, or is "auto". In this case ranks is a multiple of Unit.
func (c *Config) Extent() (ranks int, wholeWorld bool) {
	auto, others := c.Auto()
	ranks, wholeWorld = others.Extent()
	if wholeWorld = wholeWorld || len(auto) > 0; wholeWorld {
		n := c.Unit()
		ranks = (ranks + n - 1) / n * n
	}
	return ranks, wholeWorld
}

// checkAuto checks that a plan can place the components with the placement "auto".
func (c *validation) checkAuto() {
	can := append(plannedComponents(c.Runner.TaskType), c.optionalComponents()...)
	for _, e := range c.Cluster.ComponentPlacement {
		if strings.TrimSpace(e.Value.Placement) != PlacementAuto {
			continue
		}
		key := "component_placement." + e.Key
		for _, name := range config.Names(e.Key) {
			c.found.At("cluster").Want(slices.Contains(can, name), key, PlacementAuto,
				"ranks: auto is for "+strings.Join(can, ", "))
		}
		c.found.At("cluster").Want(len(e.Value.NodeGroup) == 0, key, PlacementAuto,
			"auto without a node group: the plan chooses the nodes")
	}
}

// checkScheduler checks that a job with cluster.auto_scheduler has work that can move. In the reasoning task, answers
// move. In other tasks, members move. It reports the key if nothing would move.
func (c *validation) checkScheduler() {
	const key = "cluster.auto_scheduler"
	deals := c.Deals()
	if !deals && !c.Cluster.UsePreProcessPolicy {
		c.found.Idle("cluster.use_pre_process_policy", false)
	}
	if !c.Cluster.AutoScheduler {
		return
	}
	switch {
	case c.Runner.TaskType == TaskEmbodied && c.Trains() && !c.Runner.Async:
		c.found.Want(c.Env.Train.ID() != env.ExternalID, key, true,
			"false: the cost of simulators in programs of their own is not measured")
		c.found.Want(c.Cluster.Tracer.Record, "cluster.tracer.record", false,
			"true: cluster.auto_scheduler reads the record")
	case deals: // a pool has no pipeline stages
		if n := c.Rollout.PipelineStageNum; n > 1 {
			c.found.Idle("rollout.pipeline_stage_num", n)
		}
	default: // members do not move in such a job, or no move makes it faster
		c.found.Idle(key, true)
		c.Cluster.AutoScheduler = false
	}
}
