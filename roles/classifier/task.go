package classifier

import (
	"context"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
)

// Task trains a classifier of images.
type Task struct{}

var _ task.Task = Task{}

// Has reports whether cfg trains a classifier.
func (Task) Has(cfg *config.Config) bool { return cfg.Classifies() }

// Draft returns the draft of cfg for a world whose rank r is on node nodes[r].
func (Task) Draft(cfg *config.Config, reg config.Registries, nodes []int) task.Draft {
	return newDraft(cfg, reg, nodes)
}

// Placing returns the components that a plan may place.
func (Task) Placing(cfg *config.Config) task.Placing {
	a := &cfg.Actor
	return task.Placing{Components: []string{"actor"},
		Divides: func(actors int) bool { return a.GlobalBatchSize%(actors*max(a.MicroBatchSize, 1)) == 0 }}
}

// Run is the program on every rank: it launches the actors, and trains.
func (Task) Run(ctx context.Context, c *loop.Cluster) error {
	r, err := newRunner(ctx, c)
	if err != nil {
		return err
	}
	return loop.InOrder(ctx, r.loop.Restore, r.run)
}

// Complete returns the plan, or one error with all mistakes. It reads all frames.
func (d *draft) Complete(cfg *config.Config, reg config.Registries) (*task.Plan, error) {
	d.Config, d.Registries = cfg, reg
	if err := d.complete(); err != nil {
		return nil, err
	}
	return planOf(d.plan), nil
}

// planOf returns the task.Plan of p.
func planOf(p *plan) *task.Plan {
	return &task.Plan{
		JobPlan: loop.JobPlan{Job: p.Job, NumParams: p.blank.Params().Len(), Fits: p.fits,
			Connect: func(g *spmd.GroupSpec) {
				if g.Name == "actor" {
					g.Comms = []string{member.Gradients}
				}
			},
			NewRecorder: func(*runfolder.Folder, loop.StartState) loop.Recorder { return &recorder{plan: p} }},
		Notes: p.notes(), Lines: p.describe(), MemoryColumns: memoryColumns(),
		With: func(j *job.Job) *task.Plan {
			moved := *p
			moved.Job = j
			return planOf(&moved)
		},
		NamesOn: p.WorkersOn, MemoryOf: p.memoryOf, CheckMemory: p.checkMemory,
		CheckFiles: func(int) error { return nil },
		Open: func(w *spmd.World, own *loop.Holdings) (loop.Shared, error) {
			return open(w, p, own)
		},
		Work: p.work, Profile: p.profile,
	}
}
