package embodied

import (
	"context"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/embodied/costs"
	"github.com/rlinf/rlinf/roles/embodied/plan"
	"github.com/rlinf/rlinf/roles/embodied/worker"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
)

// Task trains policies in environments. Its runner.task_type is embodied, embodied_eval or offline.
type Task struct{}

var _ task.Task = Task{}

// Has reports whether cfg asks for this task: cfg trains no language model.
func (Task) Has(cfg *config.Config) bool { return !cfg.FineTunes() }

// Draft returns the draft of cfg for a world whose rank r is on node nodes[r].
func (Task) Draft(cfg *config.Config, reg config.Registries, nodes []int) task.Draft {
	return draft{plan.NewDraft(cfg, reg, nodes)}
}

// Placing returns the components that a plan may place.
func (Task) Placing(cfg *config.Config) task.Placing {
	p := task.Placing{Components: append([]string{"actor", "env", "rollout"}, cfg.PlacedBeside()...)}
	if cfg.Evaluates() {
		p.Eval, p.EvalGroup = cfg.Env.Eval.TotalNumEnvs, max(1, cfg.Env.Eval.GroupSize)
	}
	p.Divides = func(actors int) bool {
		return cfg.Env.Train.TotalNumEnvs%(actors*max(1, cfg.Env.Train.GroupSize)) == 0 &&
			cfg.Actor.GlobalBatchSize%(actors*max(1, cfg.Actor.MicroBatchSize)) == 0
	}
	return p
}

// Run runs Train.
func (Task) Run(ctx context.Context, c *loop.Cluster) error { return Train(ctx, c) }

// A draft is a plan.Draft whose method Complete returns a task.Plan.
type draft struct{ *plan.Draft }

// Complete returns the plan, or one error with all mistakes.
func (d draft) Complete(cfg *config.Config, reg config.Registries) (*task.Plan, error) {
	p, err := d.Draft.Complete(cfg, reg)
	if err != nil {
		return nil, err
	}
	return planOf(p), nil
}

// planOf returns the task.Plan of p. Package plan cannot make it, because it needs workers and metrics.
func planOf(p *plan.Plan) *task.Plan {
	return &task.Plan{
		JobPlan: loop.JobPlan{Job: p.Job, EnvSpec: p.Spec, NumParams: p.NumParams(), EnvStates: true,
			Connect: connect, Fits: p.Fits, NewRecorder: func(_ *runfolder.Folder, from loop.StartState) loop.Recorder {
				return newRecorder(p, from)
			}},
		Policy: p.Graph, Notes: p.Notes(), Lines: p.Describe(), MemoryColumns: p.MemoryColumns(),
		With: func(j *job.Job) *task.Plan {
			moved := *p
			moved.Job = j
			return planOf(&moved)
		},
		NamesOn: p.WorkersOn, MemoryOf: p.MemoryOf, CheckMemory: p.CheckMemory, CheckFiles: p.CheckFiles,
		Open: func(w *spmd.World, own *loop.Holdings) (loop.Shared, error) { return worker.NewShared(w, p, own), nil },
		Work: func() planner.Workload { return costs.WorkOf(p) },
		Profile: func(ctx context.Context, a planner.ProbeOptions) (*planner.Profile, error) {
			return costs.Profile(ctx, p, a)
		},
	}
}

// connect sets the communicators of a component. Actors have one, over which they sum gradients.
func connect(g *spmd.GroupSpec) {
	if g.Name == "actor" {
		g.Comms = []string{member.Gradients}
	}
}
