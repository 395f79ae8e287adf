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
	*languageRunner
	Actor *spmd.Group[*worker.ReasoningWorker]
}

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
	if r.languageRunner, err = newLanguageRunner(c, r.iterate, r.evaluateAnswers); err != nil {
		return nil, err
	}
	lead(r.languageRunner, actor)
	return r, nil
}

// iterate answers prompts, rewards the answers and trains on them.
func (r *ReasoningRunner) iterate(ctx context.Context) error {
	for _, phase := range []struct {
		number int
		run    func(context.Context) error
	}{{generateRollouts, r.generate}, {calAdvAndReturns, r.computeAdvantages}, {actorTraining, r.train}} {
		if err := r.timed(phase.number, ctx, phase.run); err != nil {
			return err
		}
	}
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
	return tell(ctx, r.languageRunner, r.Actor, "run_training",
		func(ctx context.Context, w *worker.ReasoningWorker) (algo.Metrics, error) { return w.RunTraining(ctx) })
}

// evaluateAnswers answers the prompts of validation.
func (r *ReasoningRunner) evaluateAnswers(ctx context.Context) error {
	err := tell(ctx, r.languageRunner, r.Actor, "evaluate",
		func(ctx context.Context, w *worker.ReasoningWorker) (algo.Metrics, error) { return w.Evaluate(ctx) })
	for _, w := range r.Actor.Here() {
		for _, s := range w.Shown() {
			r.report.answers = append(r.report.answers, s.Line(), s.Block())
		}
	}
	return err
}
