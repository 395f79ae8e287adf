package runner

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/worker"
	"github.com/rlinf/rlinf/spmd"
)

// A ReasoningRunner leads the training of a language model on its own answers. Every rank runs one;
// its group calls do work on the ranks that have actors. A program calls InitWorkers, and then Run.
type ReasoningRunner struct {
	*loop
	Actor *spmd.Group[*worker.ReasoningWorker]
}

var _ leader = (*ReasoningRunner)(nil)

// NewReasoningWorker makes the worker of a member of the component actor, for Launch.
func NewReasoningWorker(ctx context.Context, c *Cluster, m *spmd.Member) (*worker.ReasoningWorker, error) {
	model := c.with.Models[m.Index()]
	if model == nil {
		return nil, fmt.Errorf("actor %d: the job has no language model (runner.task_type reasoning)", m.Index())
	}
	return worker.NewReasoningWorker(ctx, m, c.job, model)
}

// NewReasoningRunner returns the runner that leads the actors. Collective over the world. A job has
// one runner.
func NewReasoningRunner(c *Cluster, actor *spmd.Group[*worker.ReasoningWorker]) (*ReasoningRunner, error) {
	r := &ReasoningRunner{Actor: actor}
	var err error
	r.loop, err = newLoop(c, r)
	return r, err
}

// InitWorkers gives the workers the state that the run goes on from, if it resumes one. It is called
// once, before the first step.
func (r *ReasoningRunner) InitWorkers(ctx context.Context) error { return r.restore(ctx) }

// Run trains until the last step, or until the ranks agree to stop.
func (r *ReasoningRunner) Run(ctx context.Context) error {
	for {
		more, err := r.Next(ctx)
		if err != nil || !more {
			return err
		}
		if err := r.iterate(ctx); err != nil {
			return err
		}
		if err := r.EvaluateIfDue(ctx); err != nil {
			return err
		}
	}
}

// iterate answers prompts, rewards the answers and trains on them.
func (r *ReasoningRunner) iterate(ctx context.Context) error {
	r.report.names, r.report.values = nil, nil
	for _, phase := range []struct {
		number int
		run    func(context.Context) error
	}{{generateRollouts, r.generate}, {calAdvAndReturns, r.computeAdvantages}, {actorTraining, r.train}} {
		if err := r.timed(phase.number, ctx, phase.run); err != nil {
			return err
		}
	}
	r.step++
	return nil
}

func (r *ReasoningRunner) generate(ctx context.Context) error {
	return waitAll(ctx, call(ctx, r.Actor, "generate", func(ctx context.Context, w *worker.ReasoningWorker) error {
		return w.Generate(ctx, r.step)
	}))
}

func (r *ReasoningRunner) computeAdvantages(ctx context.Context) error {
	return waitAll(ctx, call(ctx, r.Actor, "compute_advantages",
		func(ctx context.Context, w *worker.ReasoningWorker) error {
			if err := w.Reward(ctx); err != nil {
				return err
			}
			return w.ComputeAdvantages(ctx)
		}))
}

func (r *ReasoningRunner) train(ctx context.Context) error {
	return r.tell(ctx, "run_training", (*worker.ReasoningWorker).RunTraining)
}

// EvaluateIfDue answers the prompts of validation every runner.val_check_interval steps, and after the
// last.
func (r *ReasoningRunner) EvaluateIfDue(ctx context.Context) error {
	if !r.job.EvaluatesAt(r.step) {
		return nil
	}
	return r.timed(evaluating, ctx, func(ctx context.Context) error {
		return r.tell(ctx, "evaluate", (*worker.ReasoningWorker).Evaluate)
	})
}

// tell adds metrics, which are the same on all actors, to the report.
func (r *ReasoningRunner) tell(ctx context.Context, name string,
	f func(*worker.ReasoningWorker, context.Context) (algo.Metrics, error)) error {
	results, err := spmd.Call(r.Actor, ctx, name,
		func(ctx context.Context, w *worker.ReasoningWorker) (algo.Metrics, error) { return f(w, ctx) }).Wait(ctx)
	if err != nil {
		return err
	}
	for _, res := range results {
		if res.Member == 0 {
			r.report.names = append(r.report.names, res.Value.Names...)
			r.report.values = append(r.report.values, res.Value.Values...)
		}
	}
	return nil
}

// quiesce has nothing to wait for.
func (r *ReasoningRunner) quiesce(context.Context) error { return nil }

// describe has nothing to add.
func (r *ReasoningRunner) describe(*report) {}

func (r *ReasoningRunner) shares() (all []worker.Share, err error) {
	for _, w := range r.Actor.Here() {
		all = append(all, w.Save()...)
	}
	return all, nil
}

func (r *ReasoningRunner) load(st worker.State) error {
	for _, w := range r.Actor.Here() {
		if err := w.Load(st); err != nil {
			return err
		}
	}
	return nil
}

func (r *ReasoningRunner) tracers() (all []*worker.Tracer) {
	for _, w := range r.Actor.Here() {
		all = append(all, w.Tracer())
	}
	return all
}
