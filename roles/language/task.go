package language

import (
	"context"

	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/language/costs"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/language/worker"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
)

// FineTuning is the sft task: a language model is trained on texts.
type FineTuning struct{}

// Reasoning is the reasoning task: a language model is trained on its own answers.
type Reasoning struct{}

var (
	_ task.Task = FineTuning{}
	_ task.Task = Reasoning{}
)

// Has reports whether cfg asks for the sft task.
func (FineTuning) Has(cfg *config.Config) bool {
	return cfg.FineTunes() && !cfg.Reasons() && !cfg.Classifies()
}

// Has reports whether cfg asks for the reasoning task.
func (Reasoning) Has(cfg *config.Config) bool { return cfg.Reasons() }

// Draft returns the draft of cfg for a world whose rank r is on node nodes[r].
func (FineTuning) Draft(cfg *config.Config, reg config.Registries, nodes []int) task.Draft {
	return draft{plan.NewDraft(cfg, reg, nodes)}
}

// Draft returns the draft of cfg for a world whose rank r is on node nodes[r].
func (Reasoning) Draft(cfg *config.Config, reg config.Registries, nodes []int) task.Draft {
	return draft{plan.NewDraft(cfg, reg, nodes)}
}

// Placing returns the components that a plan may place.
func (FineTuning) Placing(cfg *config.Config) task.Placing {
	return task.Placing{Components: []string{"actor"}, Models: plan.Modelled(),
		Threads: map[string]int{"actor": cfg.Actor.Threads},
		Divides: func(actors int) bool { return cfg.Actor.GlobalBatchSize%actors == 0 }}
}

// Placing returns the components that a plan may place.
func (Reasoning) Placing(cfg *config.Config) task.Placing {
	answers := cfg.Data.RolloutBatchSize * cfg.Algorithm.GroupSize
	components := append([]string{"actor", "rollout"}, cfg.PlacedBeside()...)
	threads := map[string]int{"actor": cfg.Actor.Threads, "rollout": cfg.Rollout.Threads}
	p := task.Placing{Components: components, Models: plan.Modelled(), Threads: threads}
	p.Divides = func(actors int) bool {
		return cfg.Data.RolloutBatchSize%actors == 0 && answers/actors%max(1, cfg.Algorithm.Texts.NMinibatches) == 0
	}
	if cfg.Deals() {
		p.Pool = func(named map[string][]int) map[string][]int { return plan.PoolOf(cfg, named) }
	}
	// Patches need readers that divide the model as the actors do. A pool has a rollout worker on every rank.
	p.Divided = cfg.WeightSyncer.Type == config.WeightSyncPatch || cfg.Deals()
	return p
}

// Run runs FineTune.
func (FineTuning) Run(ctx context.Context, c *loop.Cluster) error { return FineTune(ctx, c) }

// Run runs Reason.
func (Reasoning) Run(ctx context.Context, c *loop.Cluster) error { return Reason(ctx, c) }

// Evaluate measures the loss on the validation texts.
func (FineTuning) Evaluate(ctx context.Context, on *task.Evaluation) error { return measure(ctx, on) }

// Evaluate asks the model the validation questions, and grades its answers.
func (Reasoning) Evaluate(ctx context.Context, on *task.Evaluation) error { return examine(ctx, on) }

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
		JobPlan: loop.JobPlan{Job: p.Job, NumParams: p.Trained, MayDiffer: p.MayDiffer(), BasePath: p.BaseWeights.Path,
			Connect: func(g *spmd.GroupSpec) { connect(p, g) }, Fits: p.Fits,
			NewRecorder: func(f *runfolder.Folder, _ loop.StartState) loop.Recorder {
				return &recorder{plan: p, answers: f.Answers(), path: f.Generation()}
			}},
		Notes: p.Notes(), Lines: p.Describe(), MemoryColumns: p.MemoryColumns(),
		With: func(j *job.Job) *task.Plan {
			moved := *p
			moved.Job = j
			return planOf(&moved)
		},
		NamesOn: p.WorkersOn, MemoryOf: p.MemoryOf, CheckMemory: p.CheckMemory,
		CheckFiles: p.CheckFiles,
		Open:       func(w *spmd.World, own *loop.Holdings) (loop.Shared, error) { return worker.NewShared(w, p, own) },
		Work:       func() planner.Workload { return costs.WorkOf(p) },
		Profile: func(ctx context.Context, a planner.ProbeOptions) (*planner.Profile, error) {
			return costs.Profile(ctx, p, a)
		},
	}
}

// connect sets the communicators of a component, the components to which it sends direct messages, and the axes along
// which its members divide a model, outermost first. Members use communicators to sum gradients and metrics, and to
// send activations and answers within a replica. They send direct messages to exchange groups of answers.
func connect(p *plan.Plan, g *spmd.GroupSpec) {
	switch {
	case g.Name == "actor" || g.Name == "critic" && p.Config.Reasons():
		g.Comms = []string{member.Gradients}
		if p.ExchangesGroups(g.Name) {
			g.Direct = []string{g.Name}
		}
	case g.Name == "rollout" && p.Config.Reasons():
		g.Comms = []string{worker.Answers}
		if p.Config.Deals() {
			g.Comms = append(g.Comms, worker.Dealing)
		}
	}
	if m := p.Mesh(g.Name); m.Members() > 1 {
		g.Axes = m.Axes(len(g.Ranks))
		g.Comms = append(g.Comms, member.Layers)
		if m.Stages > 1 {
			g.Comms = append(g.Comms, member.Activations)
		}
		if p.Config.Reasons() && (g.Name != "rollout" || p.Config.Deals()) {
			g.Comms = append(g.Comms, worker.Groups)
		}
	}
}
