package task

import (
	"context"

	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// A Task is a kind of job.
type Task interface {
	// Has reports whether cfg asks for this task.
	Has(cfg *config.Config) bool
	// Draft places cfg in a world whose rank r is on node nodes[r].
	Draft(cfg *config.Config, reg config.Registries, nodes []int) Draft
	// Run is the program of the task: it trains.
	Run(ctx context.Context, c *loop.Cluster) error
	// Evaluate is the life of a rank that only evaluates.
	Evaluate(ctx context.Context, e *Evaluation) error
}

// A Draft is a plan in the making. A process makes one for each start of a job.
type Draft interface {
	// Mistakes returns everything that is wrong with the configuration in its world. It starts no programs.
	Mistakes() error
	// Complete returns the plan, or everything that is wrong. cfg is that of the draft; it may also know what
	// connected simulators are. reg has their environments.
	Complete(cfg *config.Config, reg config.Registries) (Plan, error)
}

// A Plan is what a session and the commands need to know of a job, beside what a loop does.
type Plan interface {
	loop.Plan
	// Open makes what the workers of a rank share. Its error may differ from rank to rank.
	Open(w *spmd.World) (loop.Shared, error)
	// Notes are what the user should know before the job begins.
	Notes() []string
	// Describe says in a few lines what one iteration does.
	Describe() []string
	// OwnKeys are the keys of users' own parts that Describe does not show.
	OwnKeys() []config.OwnKey
	// MemoryOf returns the memory that a rank needs.
	MemoryOf(rank int) job.Footprint
	// MemoryColumns are the figures of it that a table shows.
	MemoryColumns() []job.Column
	// CheckMemory returns an error if the ranks of a node need more memory than it has.
	CheckMemory(nodes []int, node int, have job.Available) error
	// CheckReplay does so for replay buffers and demonstrations on the node of a rank.
	CheckReplay(nodes []int, rank int) error
	// CheckFiles returns an error if the workers of a rank cannot read their files.
	CheckFiles(rank int) error
}

// Tasks are the tasks that a program has.
type Tasks []Task

// Of returns the task that cfg asks for. The first one stands for a task that none of them has.
func (ts Tasks) Of(cfg *config.Config) Task {
	for _, t := range ts {
		if t.Has(cfg) {
			return t
		}
	}
	return ts[0]
}

// Plan drafts and completes the plan of cfg in a world whose rank r is on node nodes[r].
func (ts Tasks) Plan(cfg *config.Config, reg config.Registries, nodes []int) (Plan, error) {
	return ts.Of(cfg).Draft(cfg, reg, nodes).Complete(cfg, reg)
}
