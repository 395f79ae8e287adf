package runner

import (
	"context"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/worker"
	"github.com/rlinf/rlinf/spmd"
)

// An SFTRunner leads the fine-tuning of a language model. Every rank runs one; its group calls do
// work on the ranks that have actors. A program calls InitWorkers, and then Run.
type SFTRunner struct {
	*languageRunner
	Actor *spmd.Group[*worker.SFTWorker]
}

// NewSFTWorker makes the worker of a member of the component actor, for Launch.
func NewSFTWorker(ctx context.Context, c *Cluster, m *spmd.Member) (*worker.SFTWorker, error) {
	model, err := c.with.Models.Of(m)
	if err != nil {
		return nil, err
	}
	return worker.NewSFTWorker(ctx, m, c.job, model)
}

// NewSFTRunner returns the runner that leads the actors. Collective over the world. A job has one
// runner.
func NewSFTRunner(ctx context.Context, c *Cluster, actor *spmd.Group[*worker.SFTWorker]) (*SFTRunner, error) {
	r := &SFTRunner{Actor: actor}
	var err error
	if r.languageRunner, err = newLanguageRunner(ctx, c, r.RunTraining, r.evaluateTexts); err != nil {
		return nil, err
	}
	lead(r.languageRunner, actor)
	return r, nil
}

// RunTraining takes an optimiser step on all actors.
func (r *SFTRunner) RunTraining(ctx context.Context) error {
	return r.timed(actorTraining, ctx, func(ctx context.Context) error {
		return tell(ctx, r.languageRunner, r.Actor, "run_training",
			func(ctx context.Context, w *worker.SFTWorker) (algo.Metrics, error) {
				return w.RunTraining(ctx, r.step)
			})
	})
}

// evaluateTexts measures the texts of validation. It tells all ranks whether training is to stop.
func (r *SFTRunner) evaluateTexts(ctx context.Context) error {
	enough := false
	err := tell(ctx, r.languageRunner, r.Actor, "evaluate",
		func(ctx context.Context, w *worker.SFTWorker) (algo.Metrics, error) {
			m, stop, err := w.Evaluate(ctx)
			if w.First() { // all actors say the same
				enough = stop
				r.report.stop = w.EarlyStop()
			}
			return m, err
		})
	if err != nil || !r.job.Config.Runner.EarlyStop.Enabled {
		return err
	}
	r.stopEarly, err = r.actorsSay(ctx, enough)
	return err
}
