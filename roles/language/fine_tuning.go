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
	g, err := LaunchSFT(ctx, c)
	if err != nil {
		return err
	}
	r, err := NewSFTRunner(ctx, c, g)
	if err != nil {
		return err
	}
	return loop.InOrder(ctx, r.InitWorkers, r.Run)
}

// An SFTRunner trains a language model on texts. Every rank runs one. A call to the group runs on the ranks that have
// actors. A program calls InitWorkers. Then it calls Run, or Next, RunTraining and EvaluateIfDue in its own loop.
type SFTRunner struct {
	*runner
	SFTGroups
}

// SFTGroups has the group whose workers an SFTRunner calls.
type SFTGroups struct {
	Actor *spmd.Group[*worker.SFTWorker]
}

// LaunchSFT launches the group of an SFTRunner. Every rank must call LaunchSFT.
func LaunchSFT(ctx context.Context, c *loop.Cluster) (g SFTGroups, err error) {
	g.Actor, err = loop.Launch(ctx, c, loop.NewHybridComponentPlacement(c).Strategy("actor"), worker.NewSFTWorker)
	return g, err
}

// NewSFTRunner returns a runner of the group in g. A job has one runner. Every rank must call NewSFTRunner.
func NewSFTRunner(ctx context.Context, c *loop.Cluster, g SFTGroups) (*SFTRunner, error) {
	r := &SFTRunner{SFTGroups: g}
	var err error
	if r.runner, err = newRunner(ctx, c, r.evaluateTexts, r.RunTraining); err != nil {
		return nil, err
	}
	addWorkers(r.runner, g.Actor)
	return r, nil
}

// RunTraining makes one optimiser step on all actors. Then it adds 1 to GlobalStep.
func (r *SFTRunner) RunTraining(ctx context.Context) error {
	err := r.loop.Timed(loop.ActorTraining, ctx, func(ctx context.Context) error {
		return callAndReport(ctx, r.runner, r.Actor, "run_training",
			func(ctx context.Context, w *worker.SFTWorker) (algo.Metrics, error) {
				return w.RunTraining(ctx, r.loop.GlobalStep())
			})
	})
	if err == nil {
		r.loop.Trained()
	}
	return err
}

// evaluateTexts measures the loss on the validation texts. If training should stop early, it stops the loop on all
// ranks.
func (r *SFTRunner) evaluateTexts(ctx context.Context) error {
	rep, enough := r.loop.Report(), false
	training := len(rep.Names)
	err := callAndReport(ctx, r.runner, r.Actor, "evaluate",
		func(ctx context.Context, w *worker.SFTWorker) (algo.Metrics, error) { return w.Evaluate(ctx) })
	if err != nil {
		return err
	}
	drop := func() { rep.Names, rep.Values = rep.Names[:training], rep.Values[:training] }
	if err := r.loop.EndFailedEvaluation(ctx, drop, loop.Evaluated(r.Actor)); err != nil {
		return err
	}
	for _, w := range r.Actor.Here() {
		stop := w.StopsEarly()
		if w.First() { // all actors have the same metrics
			enough, rep.Stop = stop, w.EarlyStop()
		}
	}
	if !r.plan.Config.Runner.EarlyStop.Enabled {
		return err
	}
	if enough, err = r.loop.ActorsSay(ctx, enough); enough && err == nil {
		r.loop.StopEarly()
	}
	return err
}
