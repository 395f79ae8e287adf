package language

import (
	"context"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/language/worker"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// FineTune is the program that trains a language model on texts. It launches the actors, and runs an SFTRunner.
func FineTune(ctx context.Context, c *loop.Cluster) error {
	actor, err := loop.Launch(ctx, c, loop.NewHybridComponentPlacement(c).Strategy("actor"), worker.NewSFTWorker)
	if err != nil {
		return err
	}
	r, err := NewSFTRunner(ctx, c, actor)
	if err != nil {
		return err
	}
	return r.run(ctx)
}

// An SFTRunner trains a language model on texts. Every rank runs one. A call to the group runs on the ranks that have
// actors. A program calls InitWorkers, and then Run.
type SFTRunner struct {
	*runner
	Actor *spmd.Group[*worker.SFTWorker]
}

// NewSFTRunner returns a runner of the actors. A job has one runner. Every rank must call NewSFTRunner.
func NewSFTRunner(ctx context.Context, c *loop.Cluster, actor *spmd.Group[*worker.SFTWorker]) (*SFTRunner, error) {
	r := &SFTRunner{Actor: actor}
	var err error
	if r.runner, err = newRunner(ctx, c, r.RunTraining, r.evaluateTexts); err != nil {
		return nil, err
	}
	addWorkers(r.runner, actor)
	return r, nil
}

// RunTraining makes one optimiser step on all actors.
func (r *SFTRunner) RunTraining(ctx context.Context) error {
	return r.loop.Timed(loop.ActorTraining, ctx, func(ctx context.Context) error {
		return callAndReport(ctx, r.runner, r.Actor, "run_training",
			func(ctx context.Context, w *worker.SFTWorker) (algo.Metrics, error) {
				return w.RunTraining(ctx, r.loop.GlobalStep())
			})
	})
}

// evaluateTexts measures the loss on the validation texts. If training should stop early, it stops the loop on all
// ranks.
func (r *SFTRunner) evaluateTexts(ctx context.Context) error {
	enough := false
	err := callAndReport(ctx, r.runner, r.Actor, "evaluate",
		func(ctx context.Context, w *worker.SFTWorker) (algo.Metrics, error) {
			m, stop, err := w.Evaluate(ctx)
			if w.First() { // all actors return the same metrics
				enough = stop
				r.loop.Report().Stop = w.EarlyStop()
			}
			return m, err
		})
	if err != nil || !r.plan.Config.Runner.EarlyStop.Enabled {
		return err
	}
	if enough, err = r.loop.ActorsSay(ctx, enough); enough && err == nil {
		r.loop.StopEarly()
	}
	return err
}
