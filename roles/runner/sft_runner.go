package runner

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/worker"
	"github.com/rlinf/rlinf/spmd"
)

// An SFTRunner leads the fine-tuning of a language model. Every rank runs one; its group calls do
// work on the ranks that have actors. A program calls InitWorkers, and then Run.
type SFTRunner struct {
	*loop
	Actor *spmd.Group[*worker.SFTWorker]
}

var _ leader = (*SFTRunner)(nil)

// NewSFTWorker makes the worker of a member of the component actor, for Launch.
func NewSFTWorker(ctx context.Context, c *Cluster, m *spmd.Member) (*worker.SFTWorker, error) {
	model := c.with.Models[m.Index()]
	if model == nil {
		return nil, fmt.Errorf("actor %d: the job has no language model (runner.task_type sft)", m.Index())
	}
	return worker.NewSFTWorker(ctx, m, c.job, model)
}

// NewSFTRunner returns the runner that leads the actors. Collective over the world. A job has one
// runner.
func NewSFTRunner(c *Cluster, actor *spmd.Group[*worker.SFTWorker]) (*SFTRunner, error) {
	r := &SFTRunner{Actor: actor}
	var err error
	r.loop, err = newLoop(c, r)
	return r, err
}

// InitWorkers gives the workers the state that the run goes on from, if it resumes one. It is called
// once, before the first step.
func (r *SFTRunner) InitWorkers(ctx context.Context) error { return r.restore(ctx) }

// Run trains until the last step, until validation stops it, or until the ranks agree to stop.
func (r *SFTRunner) Run(ctx context.Context) error {
	for {
		more, err := r.Next(ctx)
		if err != nil || !more {
			return err
		}
		if err := r.RunTraining(ctx); err != nil {
			return err
		}
		if err := r.EvaluateIfDue(ctx); err != nil {
			return err
		}
	}
}

// RunTraining takes an optimiser step on all actors.
func (r *SFTRunner) RunTraining(ctx context.Context) error {
	r.report.names, r.report.values = nil, nil
	if err := r.timed(actorTraining, ctx, r.train); err != nil {
		return err
	}
	r.step++
	return nil
}

func (r *SFTRunner) train(ctx context.Context) error {
	results, err := spmd.Call(r.Actor, ctx, "run_training",
		func(ctx context.Context, w *worker.SFTWorker) (algo.Metrics, error) {
			return w.RunTraining(ctx, r.step)
		}).Wait(ctx)
	if err != nil {
		return err
	}
	for _, res := range results {
		if res.Member == 0 {
			r.tell(res.Value)
		}
	}
	return nil
}

// tell adds metrics, which are the same on all actors, to the report.
func (r *SFTRunner) tell(m algo.Metrics) {
	r.report.names, r.report.values = append(r.report.names, m.Names...), append(r.report.values, m.Values...)
}

// EvaluateIfDue measures the texts of validation every runner.val_check_interval steps, and after the
// last.
func (r *SFTRunner) EvaluateIfDue(ctx context.Context) error {
	if !r.job.EvaluatesAt(r.step) {
		return nil
	}
	return r.timed(evaluating, ctx, r.evaluate)
}

// An evaluation is what an actor says of the texts of validation.
type evaluation struct {
	metrics algo.Metrics
	stop    bool
}

func (r *SFTRunner) evaluate(ctx context.Context) error {
	results, err := spmd.Call(r.Actor, ctx, "evaluate",
		func(ctx context.Context, w *worker.SFTWorker) (e evaluation, err error) {
			e.metrics, e.stop, err = w.Evaluate(ctx)
			return e, err
		}).Wait(ctx)
	if err != nil {
		return err
	}
	said := []byte{0}
	for _, res := range results {
		if res.Member == 0 {
			r.tell(res.Value.metrics)
		}
		if res.Value.stop { // all actors say the same
			said[0] = 1
		}
	}
	if !r.job.Config.Runner.EarlyStop.Enabled {
		return nil
	}
	if err := r.with.Saver.group.Broadcast(ctx, said, r.Actor.Spec().Ranks[0]); err != nil {
		return err
	}
	r.stopEarly = said[0] == 1
	return nil
}

// quiesce has nothing to wait for.
func (r *SFTRunner) quiesce(context.Context) error { return nil }

// describe has nothing to add.
func (r *SFTRunner) describe(*report) {}

func (r *SFTRunner) shares() (all []worker.Share, err error) {
	for _, w := range r.Actor.Here() {
		all = append(all, w.Save()...)
	}
	return all, nil
}

func (r *SFTRunner) load(st worker.State) error {
	for _, w := range r.Actor.Here() {
		if err := w.Load(st); err != nil {
			return err
		}
	}
	return nil
}

func (r *SFTRunner) tracers() (all []*worker.Tracer) {
	for _, w := range r.Actor.Here() {
		all = append(all, w.Tracer())
	}
	return all
}
