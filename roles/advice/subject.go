package advice

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	keys "github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/planner/probe"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
)

// A Subject is a configuration in a world, whose placement is asked for.
type Subject struct {
	Config     *config.Config
	Registries config.Registries
	Tasks      task.Tasks
	Nodes      []int // the node of each rank

	placing task.Placing
	present *spmd.Placement  // of the components that the configuration places itself
	movable []string         // the components that a plan places
	fixed   map[string][]int // the others of these
	meshes  map[string]planner.Mesh
	actors  int // members
	critics int // 0: the job has no critic workers
}

// New returns the subject of cfg in a world whose rank r is on node nodes[r]. A plan may place the components with the
// placement auto; with all set also the others, unless a node group holds them.
func New(cfg *config.Config, reg config.Registries, tasks task.Tasks, nodes []int, all bool) (*Subject, error) {
	s := &Subject{Config: cfg, Registries: reg, Tasks: tasks, Nodes: nodes, fixed: map[string][]int{},
		meshes: map[string]planner.Mesh{}, placing: tasks.Of(cfg).Placing(cfg)}
	for _, name := range s.placing.Components {
		if l := cfg.Layout(name); l.Size() > 1 {
			s.meshes[name] = planner.Mesh{Pipeline: l.PipelineModelParallelSize, Tensor: l.TensorModelParallelSize}
		}
	}
	auto, own := cfg.Auto()
	if own.AllowIdleRanks = true; all { // the world may be another one than the configuration's
		own.NumNodes = 0
	}
	var err error
	if len(own.Components) > 0 {
		if s.present, err = spmd.Place(own, nodes); err != nil {
			return nil, err
		}
	}
	for _, name := range s.placing.Components {
		switch {
		case slices.Contains(auto, name), all && !s.held(name):
			s.movable = append(s.movable, name)
		case len(s.given(name)) > 0:
			s.fixed[name] = s.given(name)
		}
		if n, of := s.meshes[name].Members(), len(s.fixed[name]); of%n != 0 {
			return nil, fmt.Errorf("cluster.component_placement.%s: %s: expected a multiple of %d members, which "+
				"divide a model", name, spmd.PlacementOf(s.fixed[name]), n)
		}
	}
	s.actors = cmp.Or(len(s.given("actor")), s.mostActors())
	if n := s.meshes["actor"].Members(); s.actors == 0 && n > len(nodes) {
		return nil, fmt.Errorf("cluster.component_placement: auto: %d ranks, and %d actors divide a model: expected "+
			"as many ranks, or a place for actor", len(nodes), n)
	}
	if s.actors == 0 {
		return nil, fmt.Errorf("cluster.component_placement: auto: no number of actors up to %d divides the "+
			"environments and batches of this job: place actor yourself", len(nodes))
	}
	if slices.Contains(s.placing.Components, critic) {
		s.critics = cmp.Or(len(s.given(critic)), s.replicas()*s.meshes[critic].Members())
	}
	return s, nil
}

// given returns the ranks of a component that the configuration places itself; nil for others.
func (s *Subject) given(component string) []int {
	if s.present == nil {
		return nil
	}
	return s.present.Ranks(component)
}

// critic is the component that keeps its number of members, as the actors do, because that decides results.
const critic = "critic"

// held reports whether a component is bound to a node group.
func (s *Subject) held(component string) bool {
	for _, e := range s.Config.Cluster.ComponentPlacement {
		for name := range strings.SplitSeq(e.Key, ",") {
			if strings.TrimSpace(name) == component && len(e.Value.NodeGroup) > 0 {
				return true
			}
		}
	}
	return false
}

// mostActors returns the number of actors of a job that leaves it open: the largest, up to the ranks, among which its
// work can be divided; 0: none. It does not depend on a measurement, so that results do not either.
func (s *Subject) mostActors() int {
	members := s.meshes["actor"].Members()
	w := len(s.Nodes) / members
	for w > 0 && !s.placing.Divides(w) {
		w--
	}
	return w * members
}

// replicas returns the number of models that the actors have.
func (s *Subject) replicas() int { return s.actors / s.meshes["actor"].Members() }

// KeepActors keeps the number of models that the actors have in p, an earlier plan of the same run.
func (s *Subject) KeepActors(p *Plan) {
	if len(s.given("actor")) > 0 {
		return
	}
	s.actors = len(p.Layout.Actor) / p.Layout.Meshes["actor"].Members() * s.meshes["actor"].Members()
	if s.critics > 0 {
		s.critics = cmp.Or(len(s.given(critic)), s.replicas()*s.meshes[critic].Members())
	}
}

// Space returns the layouts that a plan may choose from.
func (s *Subject) Space() planner.Space {
	space := planner.Space{Nodes: s.Nodes, Fixed: s.fixed, Idle: true, Eval: s.placing.Eval,
		EvalGroup: s.placing.EvalGroup, Further: map[string]int{}, Meshes: s.meshes,
		Threads: map[string]int{}}
	cfg := s.Config
	for _, name := range cfg.PlacedBeside() {
		if slices.Contains(s.movable, name) {
			space.Further[name] = 0
		}
	}
	if _, has := space.Further[critic]; has {
		space.Further[critic] = s.critics
	}
	for _, g := range cfg.Cluster.NodeGroups {
		var ranks []int
		for r, n := range s.Nodes {
			if slices.Contains(g.NodeRanks, n) {
				ranks = append(ranks, r)
			}
		}
		space.Groups = append(space.Groups, ranks)
	}
	auto, _ := cfg.Auto()
	space.Divide = slices.Contains(s.movable, "rollout") && cfg.WeightSyncer.Type != config.WeightSyncPatch &&
		(len(auto) == 0 || !cfg.Given("rollout.tensor_parallel_size"))
	if len(auto) == 0 && s.present != nil {
		space.Present = s.layout()
	} else if cfg.Given("rollout.pipeline_stage_num") {
		space.Stages = cfg.Rollout.PipelineStageNum
	}
	for name, n := range s.placing.Threads {
		if len(auto) > 0 && cfg.Given(name+".threads") || !slices.Contains(s.movable, name) {
			space.Threads[name] = n
		}
	}
	return space
}

// layout returns the layout that the configuration has now. A component without a place is with the actors.
func (s *Subject) layout() *planner.Layout {
	l := &planner.Layout{Nodes: s.Nodes, Stages: 1, Meshes: s.meshes, Threads: s.placing.Threads}
	for _, name := range s.placing.Components {
		ranks := s.present.Ranks(name)
		if ranks == nil {
			ranks = s.present.Ranks("actor")
		}
		l.Place(name, ranks)
	}
	if len(l.Rollout) > 0 {
		l.Stages = max(1, s.Config.Rollout.PipelineStageNum)
	}
	return l
}

// inTurn returns the layout of one replica of each component, but of all actors and critic workers, with all members on
// rank 0 of a world, and a thread for each.
func (s *Subject) inTurn(nodes []int) planner.Layout {
	l := planner.Layout{Nodes: nodes, Stages: 1, Meshes: s.meshes, Threads: map[string]int{}}
	for _, name := range s.placing.Components {
		l.Place(name, make([]int, s.meshes[name].Members()))
	}
	l.Actor, l.Critic = make([]int, s.actors), make([]int, s.critics)
	for name := range s.placing.Threads {
		l.Threads[name] = 1
	}
	return l
}

// Identity returns what a profile of this subject must have been measured with.
func (s *Subject) Identity() planner.Identity {
	return planner.Identity{Build: runfolder.BinaryID(), Host: probe.Host(), Job: s.hash()}
}

// hash returns a hash of what costs depend on: the configuration without its placement, length and output, the
// components that the job has, and the numbers of actors and critic workers.
func (s *Subject) hash() string {
	c, d := *s.Config, config.Default()
	c.Cluster, c.SPMD, c.Rollout.PipelineStageNum = d.Cluster, d.SPMD, d.Rollout.PipelineStageNum
	c.Actor.Threads, c.Rollout.Threads = d.Actor.Threads, d.Rollout.Threads
	c.Rollout.TensorParallelSize = d.Rollout.TensorParallelSize
	r := &c.Runner
	r.Logger, r.MaxEpochs, r.MaxSteps, r.MaxTime = d.Runner.Logger, -1, -1, 0
	r.ValCheckInterval, r.SaveInterval, r.SaveAtEnd, r.KeepCheckpoints = -1, -1, false, 0
	r.ResumeDir, r.CkptPath = "", ""
	sum := sha256.Sum256(fmt.Appendf(c.Resolved(), "\n%v, %d actors, %d critic workers\n", s.placing.Components,
		s.actors, s.critics))
	return fmt.Sprintf("%x", sum[:12])
}

// at returns the configuration with the movable components placed by l.
func (s *Subject) at(l *planner.Layout) *config.Config {
	c := *s.Config
	c.Cluster.ComponentPlacement = nil
	own := map[string]bool{}
	for _, name := range s.movable {
		own[name] = true
		e := keys.Entry[config.PlacementConfig]{Key: name}
		ranks := l.Ranks(name)
		if len(ranks) == 0 { // it has no work in training, but a place all the same
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
		c.Rollout.PipelineStageNum, c.Rollout.TensorParallelSize = l.Stages, max(1, l.Meshes["rollout"].Tensor)
	}
	c.Actor.Threads = cmp.Or(l.Threads["actor"], c.Actor.Threads)
	c.Rollout.Threads = cmp.Or(l.Threads["rollout"], c.Rollout.Threads)
	c.Cluster.AllowIdleRanks = c.Cluster.AllowIdleRanks || len(l.Idle()) > 0
	return &c
}

// YAML returns the keys of a layout, to paste into a configuration.
func (s *Subject) YAML(l *planner.Layout) string {
	var b strings.Builder
	b.WriteString("cluster:\n")
	if len(l.Idle()) > 0 {
		b.WriteString("  allow_idle_ranks: true\n")
	}
	b.WriteString("  component_placement:\n")
	for _, e := range s.at(l).Cluster.ComponentPlacement {
		if len(e.Value.NodeGroup) > 0 {
			fmt.Fprintf(&b, "    %s: {node_group: [%s], placement: \"%s\"}\n", e.Key,
				strings.Join(e.Value.NodeGroup, ", "), e.Value.Placement)
		} else {
			fmt.Fprintf(&b, "    %s: %s\n", e.Key, e.Value.Placement)
		}
	}
	if n := l.Threads["actor"]; n > 0 {
		fmt.Fprintf(&b, "actor:\n  threads: %d\n", n)
	}
	if len(l.Rollout) > 0 {
		fmt.Fprintf(&b, "rollout:\n  pipeline_stage_num: %d\n", l.Stages)
		if n := l.Threads["rollout"]; n > 0 {
			fmt.Fprintf(&b, "  threads: %d\n", n)
		}
		if n := max(1, l.Meshes["rollout"].Tensor); n != s.Config.Rollout.TensorParallelSize {
			fmt.Fprintf(&b, "  tensor_parallel_size: %d\n", n)
		}
	}
	return b.String()
}
