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
func (d draft) Complete(cfg *config.Config, reg config.Registries) (task.Plan, error) {
	p, err := d.Draft.Complete(cfg, reg)
	return planned{p}, err
}

// A planned is a plan with more methods. These methods need workers and metrics, which package plan cannot import.
type planned struct{ *plan.Plan }

var _ task.Plan = planned{}

// Comms returns the communicators of a component. Actors have one, over which they sum gradients.
func (planned) Comms(component string) (comms, direct []string) {
	if component == "actor" {
		comms = []string{member.Gradients}
	}
	return comms, nil
}

// With returns the plan with the placement of j.
func (p planned) With(j *job.Job) task.Plan {
	moved := *p.Plan
	moved.Job = j
	return planned{&moved}
}

// Open returns the worker.Shared of a rank.
func (p planned) Open(w *spmd.World, own *loop.Holdings) (loop.Shared, error) {
	return worker.NewShared(w, p.Plan, own), nil
}

// Work returns the work of an iteration, as far as it is known without a measurement.
func (p planned) Work() planner.Work { return costs.WorkOf(p.Plan) }

// Profile measures what the operations of the job cost.
func (p planned) Profile(ctx context.Context, a planner.Asked) (*planner.Profile, error) {
	return costs.Profile(ctx, p.Plan, a)
}

// NewRecorder returns a recorder of the metrics.
func (p planned) NewRecorder(_ *runfolder.Folder, from loop.StartState) loop.Recorder {
	return &recorder{plan: p.Plan, rollouts: from.Rollouts(), from: from.Step, losses: [2]losses{
		newLosses("env.train", p.Config.Env.Train), newLosses("env.eval", p.Config.Env.Eval)}}
}
