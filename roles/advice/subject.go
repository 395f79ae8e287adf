package advice

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/planner/probe"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
)

// A Subject is a configuration and a world, for which a plan finds a placement.
type Subject struct {
	Config     *config.Config
	Registries config.Registries
	Tasks      task.Tasks
	Nodes      []int  // the node of each rank
	Measured   *Nodes // nil if not measured

	placing task.Placing
	present *spmd.Placement  // placement of the components that the configuration places itself
	movable []string         // the components that a plan places
	fixed   map[string][]int // the ranks of the other components, which a plan does not place
	meshes  map[string]mesh.Mesh
	actors  int  // number of replicas of the actors' model
	open    bool // the configuration leaves the number of replicas open
	critics int  // number of replicas of the critic; 0 if the job has no critic workers
}

// New returns the subject of cfg in a world whose rank r is on node nodes[r]. A plan places the components whose
// placement is auto. If placeAll is true, it also places all other components that are not bound to a node group.
func New(cfg *config.Config, reg config.Registries, tasks task.Tasks, nodes []int, placeAll bool) (*Subject, error) {
	s := &Subject{Config: cfg, Registries: reg, Tasks: tasks, Nodes: nodes, fixed: map[string][]int{},
		meshes: map[string]mesh.Mesh{}, placing: tasks.Of(cfg).Placing(cfg)}
	for _, name := range s.placing.Components {
		if l := cfg.Layout(name); l.Size() > 1 {
			s.meshes[name] = config.MeshOf(l)
		}
	}
	auto, own := cfg.Auto()
	if own.AllowIdleRanks = true; placeAll { // the world may differ from that of the configuration
		own.NumNodes = 0
	}
	var err error
	if len(own.Components) > 0 {
		if s.present, err = spmd.Place(own, nodes); err != nil {
			return nil, err
		}
	}
	for _, name := range s.placing.Components {
		of := name
		if !cfg.Places(name) {
			of = "actor" // the component is on the ranks of the actors
		}
		switch {
		case slices.Contains(auto, of), placeAll && !s.isBound(of):
			s.movable = append(s.movable, name)
		case len(s.configuredRanks(of)) > 0:
			s.fixed[name] = s.configuredRanks(of)
		}
		if n, of := s.meshes[name].Members(), len(s.fixed[name]); of%n != 0 {
			return nil, fmt.Errorf("cluster.component_placement.%s: %s: expected a multiple of %d members, which "+
				"divide a model", name, spmd.PlacementOf(s.fixed[name]), n)
		}
	}
	members := s.meshes["actor"].Members()
	s.actors = len(s.configuredRanks("actor")) / members
	if s.open = s.actors == 0; s.open {
		s.actors = s.mostActors()
	}
	if s.actors == 0 && members > len(nodes) {
		return nil, fmt.Errorf("cluster.component_placement: auto: %d ranks, and %d actors divide a model: expected "+
			"as many ranks, or a place for actor", len(nodes), members)
	}
	if s.actors == 0 {
		return nil, fmt.Errorf("cluster.component_placement: auto: no number of actors up to %d divides the "+
			"environments and batches of this job: place actor yourself", len(nodes))
	}
	s.setCritics()
	return s, nil
}

// setCritics sets the number of replicas of the critic from the configuration. The default is the number of replicas of
// the actors.
func (s *Subject) setCritics() {
	if slices.Contains(s.placing.Components, critic) {
		s.critics = cmp.Or(len(s.configuredRanks(critic))/s.meshes[critic].Members(), s.actors)
	}
}

// configuredRanks returns the ranks of a component that the configuration places itself, and nil for other components.
func (s *Subject) configuredRanks(component string) []int {
	if s.present == nil {
		return nil
	}
	return s.present.Ranks(component)
}

// critic is the name of a component. A plan never changes the number of replicas of critic workers or actors, because
// results depend on this number.
const critic = "critic"

// isBound reports whether a component is bound to a node group.
func (s *Subject) isBound(component string) bool {
	for _, e := range s.Config.Cluster.ComponentPlacement {
		for name := range strings.SplitSeq(e.Key, ",") {
			if strings.TrimSpace(name) == component && len(e.Value.NodeGroup) > 0 {
				return true
			}
		}
	}
	return false
}

// mostActors returns the number of actor replicas for a configuration that leaves this number open. It is the largest
// number that divides the job's work and allows a rank for each member, or 0 if there is none. The number must not
// depend on measurements, because results depend on it.
func (s *Subject) mostActors() int {
	n := len(s.Nodes) / s.meshes["actor"].Members()
	for n > 0 && !s.placing.Divides(n) {
		n--
	}
	return n
}

// KeepActors takes the number of actor replicas from p, an earlier plan of the same run. It changes nothing if the
// configuration places the actors.
func (s *Subject) KeepActors(p *StartPlan) {
	if len(s.configuredRanks("actor")) > 0 {
		return
	}
	s.actors, s.open = len(p.Layout.Actor)/p.Layout.Meshes["actor"].Members(), false
	s.setCritics()
}

// Fit lowers the number of actor replicas until a placement fits into the memory of m. With fewer replicas, each can
// use more ranks. Fit changes the number only if the configuration leaves it open and lets a plan shard the model. note
// describes the change to people. It is "" if there is no change.
func (s *Subject) Fit(m *planner.Machine) (note string, err error) {
	if s.Space().Free["actor"] == (planner.Axes{}) || !s.open || m.Memory == 0 {
		return "", nil
	}
	most := s.actors
	for ; s.actors > 0; s.actors-- {
		if !s.placing.Divides(s.actors) {
			continue
		}
		s.setCritics()
		l := s.inTurn([]int{0})
		p, err := s.Tasks.Plan(s.onRanks(&l), s.Registries, []int{0})
		if err != nil {
			return "", config.UsageError{Err: err}
		}
		if planner.Fits(m, p.Work(), s.Space()) {
			if s.actors < most {
				note = fmt.Sprintf("The memory of a node, %s, has no room for %d models of the actors: there are %d, "+
					"among which batches are divided.", figures.MiB(m.Memory), most, s.actors)
			}
			return note, nil
		}
	}
	s.actors = most // a search will report what is missing
	s.setCritics()
	return "", nil
}

// Space returns the layouts that a plan may choose from.
func (s *Subject) Space() planner.SearchSpace {
	space := planner.SearchSpace{Nodes: s.Nodes, Fixed: s.fixed, Idle: true, Eval: s.placing.Eval,
		EvalGroup: s.placing.EvalGroup, Further: map[string]int{}, Meshes: s.meshes, Free: map[string]planner.Axes{},
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
	for _, name := range s.movable {
		if axes := s.axes(name, len(auto) > 0); axes != (planner.Axes{}) {
			space.Free[name] = axes
		}
	}
	if s.placing.Pool != nil && slices.Contains(s.movable, "rollout") {
		space.Runs = func(l *planner.Placement) bool {
			run := *l
			s.pool(&run)
			return run.String() == l.String()
		}
	}
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

// axes marks the numbers of a component's mesh that a plan may change. If keepsGiven is true, numbers that the
// configuration gives do not change. The number of stages does not change if the configuration lists their layers.
func (s *Subject) axes(component string, keepsGiven bool) planner.Axes {
	cfg := s.Config
	if s.placing.Divided || !slices.Contains(s.placing.Models, component) {
		return planner.Axes{}
	}
	free := func(key string) bool { return !keepsGiven || !cfg.Given(key) }
	tensor, stages := config.LayoutKeys(component)
	return planner.Axes{Tensor: free(tensor),
		Stage: component != "rollout" && free(stages) && len(cfg.Layout(component).PipelineLayers) == 0}
}

// layout returns the layout of the configuration. A component without a placement is on the ranks of the actors.
func (s *Subject) layout() *planner.Placement {
	l := &planner.Placement{Nodes: s.Nodes, Stages: 1, Meshes: s.meshes, Threads: s.placing.Threads}
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
	s.pool(l)
	return l
}

// pool moves the members of l to the ranks on which a pool runs them. In a job without a pool it changes nothing.
func (s *Subject) pool(l *planner.Placement) {
	if s.placing.Pool == nil {
		return
	}
	named := map[string][]int{}
	for _, name := range l.Components() {
		named[name] = l.Ranks(name)
	}
	for name, ranks := range s.placing.Pool(named) {
		l.Place(name, ranks)
	}
}

// inTurn returns a layout with all members on rank 0 of a world, and one thread for each member. Actors and critic
// workers have all their replicas. Every other component has one replica. Rank r of the world is on node nodes[r].
func (s *Subject) inTurn(nodes []int) planner.Placement {
	l := planner.Placement{Nodes: nodes, Stages: 1, Meshes: s.meshes, Threads: map[string]int{}}
	for _, name := range s.placing.Components {
		l.Place(name, make([]int, s.meshes[name].Members()))
	}
	l.Actor = make([]int, s.actors*s.meshes["actor"].Members())
	l.Critic = make([]int, s.critics*s.meshes[critic].Members())
	for name := range s.placing.Threads {
		l.Threads[name] = 1
	}
	return l
}

// Identity returns the identity that a profile of this subject must have.
func (s *Subject) Identity() planner.Identity {
	return planner.Identity{Build: runfolder.BinaryID(), Host: probe.Host(), Job: s.hash()}
}

// hash returns a hash of everything that costs depend on: the configuration (but not its placement, layouts, length and
// output), the components of the job, and the numbers of replicas of actors and critic workers.
func (s *Subject) hash() string {
	c, d := *s.Config, config.Default()
	c.Cluster, c.SPMD, c.Rollout.PipelineStageNum = d.Cluster, d.SPMD, d.Rollout.PipelineStageNum
	c.Actor.Threads, c.Rollout.Threads = d.Actor.Threads, d.Rollout.Threads
	for _, name := range s.placing.Models {
		if slices.Contains(s.placing.Components, name) {
			config.SetLayout(&c, name, mesh.Mesh{})
		}
	}
	s.follow(&c)
	r := &c.Runner
	r.Logger, r.MaxEpochs, r.MaxSteps, r.MaxTime = d.Runner.Logger, -1, -1, 0
	r.ValCheckInterval, r.SaveInterval, r.SaveAtEnd, r.KeepCheckpoints = -1, -1, false, 0
	r.ResumeDir, r.CkptPath = "", ""
	for _, e := range []*env.Config{&c.Env.Train, &c.Env.Eval} { // a simulator costs the same, however it connects
		if e.ID() == env.ExternalID {
			e.EnvType, e.External = env.ExternalID, env.External{N: e.External.N}
		}
	}
	sum := sha256.Sum256(fmt.Appendf(c.Resolved(), "\n%v, %d actors, %d critic workers\n", s.placing.Components,
		s.actors, s.critics))
	return fmt.Sprintf("%x", sum[:12])
}
