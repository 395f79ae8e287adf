package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	keys "github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/spmd"
)

// placedBy returns the configuration with the movable components placed by l.
func (s *Subject) placedBy(l *planner.Placement) *config.Config {
	c := *s.Config
	c.Cluster.ComponentPlacement = nil
	own := map[string]bool{}
	for _, name := range s.movable {
		own[name] = true
		e := keys.Entry[config.PlacementConfig]{Key: name}
		ranks := l.Ranks(name)
		if len(ranks) == 0 { // the component has no work in training, but needs a placement
			ranks = l.Actor[:1]
		}
		e.Value.Placement = spmd.PlacementOf(ranks)
		c.Cluster.ComponentPlacement = append(c.Cluster.ComponentPlacement, e)
	}
	for _, e := range s.Config.Cluster.ComponentPlacement {
		var left []string
		for name := range strings.SplitSeq(e.Key, ",") {
			if name = strings.TrimSpace(name); !own[name] {
				left = append(left, name)
			}
		}
		if len(left) > 0 {
			e.Key = strings.Join(left, ",")
			c.Cluster.ComponentPlacement = append(c.Cluster.ComponentPlacement, e)
		}
	}
	if len(l.Rollout) > 0 {
		c.Rollout.PipelineStageNum = l.Stages
	}
	for _, name := range l.Components() {
		if by := l.Meshes[name].Full(); by != config.MeshOf(c.Layout(name)) {
			config.SetLayout(&c, name, by)
		}
	}
	s.follow(&c)
	c.Actor.Threads = cmp.Or(l.Threads["actor"], c.Actor.Threads)
	c.Rollout.Threads = cmp.Or(l.Threads["rollout"], c.Rollout.Threads)
	c.Cluster.AllowIdleRanks = c.Cluster.AllowIdleRanks || len(l.Idle()) > 0
	return &c
}

// follow gives components without a placement the mesh of the actors, which is their default.
func (s *Subject) follow(c *config.Config) {
	actor := c.Layout("actor")
	for _, name := range s.placing.Models {
		if name != "rollout" && !slices.Contains(s.placing.Components, name) && !c.Given(name+".model") {
			config.SetLayout(c, name, config.MeshOf(actor))
		}
	}
}

// YAML returns the configuration keys of a layout as text, to paste into a configuration. Each key replaces the
// existing key. component_placement replaces its whole section, because a key in it may name several components. The
// text has the micro-batch size if its default would change with the placement, because results depend on this size.
func (s *Subject) YAML(l *planner.Placement) string {
	var b strings.Builder
	b.WriteString("# Each key replaces that of the file; component_placement replaces its whole section.\ncluster:\n")
	if len(l.Idle()) > 0 {
		b.WriteString("  allow_idle_ranks: true\n")
	}
	b.WriteString("  component_placement:\n")
	c := s.placedBy(l)
	for _, e := range c.Cluster.ComponentPlacement {
		if len(e.Value.NodeGroup) > 0 {
			fmt.Fprintf(&b, "    %s: {node_group: [%s], placement: \"%s\"}\n", e.Key,
				strings.Join(e.Value.NodeGroup, ", "), e.Value.Placement)
		} else {
			fmt.Fprintf(&b, "    %s: %s\n", e.Key, e.Value.Placement)
		}
	}
	_, open := s.Config.Extent()
	for _, name := range l.Components() {
		var keys []string
		if name == "actor" && open && c.Actor.MicroBatchSize > 0 && !c.Given("actor.micro_batch_size") {
			keys = append(keys, fmt.Sprintf("micro_batch_size: %d", c.Actor.MicroBatchSize))
		}
		if name == "rollout" {
			keys = append(keys, fmt.Sprintf("pipeline_stage_num: %d", l.Stages))
		}
		if n := l.Threads[name]; n > 0 {
			keys = append(keys, fmt.Sprintf("threads: %d", n))
		}
		keys = append(keys, s.layoutKeys(c, name)...)
		if len(keys) > 0 {
			fmt.Fprintf(&b, "%s:\n  %s\n", name, strings.Join(keys, "\n  "))
		}
	}
	return b.String()
}

// layoutKeys returns the keys that set a component's mesh to that of c, as lines of its section. It returns nil if the
// component has this mesh already.
func (s *Subject) layoutKeys(c *config.Config, component string) []string {
	now, next := s.Config.Layout(component), c.Layout(component)
	if (component == "inference" || component == critic) && !c.Given(component+".model") {
		now = c.Layout("actor") // the default
	}
	switch {
	case config.MeshOf(next) == config.MeshOf(now):
		return nil
	case component == "rollout":
		return []string{fmt.Sprintf("tensor_parallel_size: %d", next.TensorModelParallelSize)}
	}
	return []string{"model:", fmt.Sprintf("  tensor_model_parallel_size: %d", next.TensorModelParallelSize),
		fmt.Sprintf("  pipeline_model_parallel_size: %d", next.PipelineModelParallelSize)}
}
