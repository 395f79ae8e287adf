package task

import (
	"context"

	"github.com/rlinf/rlinf/policy/graph"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/spmd"
)

// A Task is a kind of job, named by runner.task_type.
type Task interface {
	// Has reports whether cfg asks for this task.
	Has(cfg *config.Config) bool
	// Draft places cfg in a world whose rank r is on node nodes[r].
	Draft(cfg *config.Config, reg config.Registries, nodes []int) Draft
	// Placing describes what a plan may place in a job of cfg.
	Placing(cfg *config.Config) Placing
	// Run is the task's program on every rank: it trains.
	Run(ctx context.Context, c *loop.Cluster) error
	// Evaluate is the program of each rank in a job that only evaluates.
	Evaluate(ctx context.Context, e *Evaluation) error
}

// A Placing describes what a plan may place in a job.
type Placing struct {
	Components []string // the components that a plan places; optional components only if the job places them
	// Pool maps the configured ranks of components to the ranks on which their members run. It is nil if members run on
	// the configured ranks.
	Pool func(named map[string][]int) map[string][]int
	// Divides reports whether the work of the job can be divided among this number of replicas of the actors' model.
	Divides func(actors int) bool
	// Models are the components whose members may shard a model. If Divided is true, a plan keeps the meshes of the
	// configuration.
	Models  []string
	Divided bool
	// Threads has the number of threads of each component that is faster with more threads.
	Threads map[string]int
	// Eval is the number of environments in evaluations. It is 0 if there are no evaluations. In evaluations, groups of
	// EvalGroup environments begin in the same state.
	Eval, EvalGroup int
}

// A Draft is an incomplete Plan. A process makes a new Draft for each start of a job.
type Draft interface {
	// Mistakes returns all mistakes of the configuration in its world, as one error. It starts no programs.
	Mistakes() error
	// Complete returns the plan, or all mistakes as one error. cfg is the draft's configuration. If connected
	// simulators were queried, cfg has their specification, and reg has the simulators.
	Complete(cfg *config.Config, reg config.Registries) (*Plan, error)
	// Common returns the job as far as it is known. It has a placement if there are no mistakes.
	Common() *job.Job
}

// A Plan describes a job to sessions and commands. It is the same on every rank, and does not change.
type Plan struct {
	loop.JobPlan
	Notes         []string              // warnings that the user should see before the job begins
	Lines         []string              // describe one iteration
	MemoryColumns []job.FootprintColumn // of a table of all ranks' footprints

	// With returns the plan with the placement of j, which is the same job with another placement.
	With func(j *job.Job) *Plan
	// NamesOn returns the names of a rank's workers, with their places in a mesh.
	NamesOn func(rank int) []string
	// MemoryOf estimates the memory that a rank needs.
	MemoryOf func(rank int) job.Footprint
	// CheckMemory returns an error if the ranks of a node need more memory than the node has.
	CheckMemory func(nodes []int, node int, have job.Available) error
	// CheckFiles returns an error if the workers of a rank cannot read the files that Open does not read.
	CheckFiles func(rank int) error
	// Open makes the objects that the workers of a rank share, such as models. It can fail on some ranks and succeed on
	// others. own has the state that the rank keeps from its previous world.
	Open func(w *spmd.World, own *loop.Holdings) (loop.Shared, error)
	// Policy describes how the policy computes actions; nil if the job has a language model instead.
	Policy func() (graph.Node, error)
	// Work describes the work of an iteration, as far as it is known without a measurement.
	Work func() planner.Workload
	// Profile measures the costs of the job's operations.
	Profile func(ctx context.Context, a planner.ProbeOptions) (*planner.Profile, error)
}

// Move returns p with the placement of another draft of the same job. It returns all mistakes of the draft as one
// error. The numbers of members and the rest of the plan do not change.
func Move(p *Plan, to Draft) (*Plan, error) {
	if err := to.Mistakes(); err != nil {
		return nil, err
	}
	j, err := p.Moved(to.Common())
	if err != nil {
		return nil, err
	}
	return p.With(j), nil
}

// Tasks are all tasks of a program.
type Tasks []Task

// Of returns the task that cfg asks for. If no task fits, Of returns the first one.
func (ts Tasks) Of(cfg *config.Config) Task {
	for _, t := range ts {
		if t.Has(cfg) {
			return t
		}
	}
	return ts[0]
}

// Plan drafts and completes the plan of cfg in a world whose rank r is on node nodes[r].
func (ts Tasks) Plan(cfg *config.Config, reg config.Registries, nodes []int) (*Plan, error) {
	return ts.Of(cfg).Draft(cfg, reg, nodes).Complete(cfg, reg)
}
