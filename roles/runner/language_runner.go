package runner

import (
	"context"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/worker"
	"github.com/rlinf/rlinf/spmd"
)

// A languageRunner is the part that SFTRunner and ReasoningRunner share: the loop, and the workers of
// this rank.
type languageRunner struct {
	*loop
	here      []languageWorker
	iteration func(context.Context) error
	evaluate  func(context.Context) error
}

// A languageWorker is a worker of a job that trains a language model. One without a part of the
// state saves none.
type languageWorker interface {
	Save() []worker.Share
	Load(worker.State) error
	Tracer() *worker.Tracer
	Close() error
}

var _ leader = (*languageRunner)(nil)

// newLanguageRunner returns the runner of a job without workers yet, when all ranks have read the same
// inputs. Collective over the world.
func newLanguageRunner(ctx context.Context, c *Cluster, iteration, evaluate func(context.Context) error) (
	*languageRunner, error) {
	r := &languageRunner{iteration: iteration, evaluate: evaluate}
	err := worker.CompareInputs(ctx, c.with.Saver.group, c.job.Tuning)
	if err != nil {
		return nil, err
	}
	r.loop, err = newLoop(c, r)
	return r, err
}

// lead adds the workers of g that are here. g may be nil.
func lead[W languageWorker](r *languageRunner, g *spmd.Group[W]) {
	if g == nil {
		return
	}
	for _, w := range g.Here() {
		r.here = append(r.here, w)
	}
}

// InitWorkers gives the workers the state that the run goes on from, if it resumes one. It is called
// once, before the first step.
func (r *languageRunner) InitWorkers(ctx context.Context) error { return r.restore(ctx) }

// Run trains until the last step, until validation stops it, or until the ranks agree to stop.
func (r *languageRunner) Run(ctx context.Context) error {
	for {
		more, err := r.Next(ctx)
		if err != nil || !more {
			return err
		}
		r.report.names, r.report.values, r.report.answers, r.report.stop = nil, nil, nil, nil
		if err := r.iteration(ctx); err != nil {
			return err
		}
		r.step++
		if err := r.EvaluateIfDue(ctx); err != nil {
			return err
		}
	}
}

// EvaluateIfDue measures the texts of validation every runner.val_check_interval steps, and after the
// last.
func (r *languageRunner) EvaluateIfDue(ctx context.Context) error {
	if !r.job.EvaluatesAt(r.step) {
		return nil
	}
	return r.timed(evaluating, ctx, r.evaluate)
}

// tell calls f on the members of g, and adds the metrics of the first to the report.
func tell[W any](ctx context.Context, r *languageRunner, g *spmd.Group[W], name string,
	f func(context.Context, W) (algo.Metrics, error)) error {
	return r.told(ctx, spmd.Call(g, ctx, name, f))
}

// told adds the metrics of the first member of each call, which are everyone's, to the report.
func (r *languageRunner) told(ctx context.Context, calls ...*spmd.Future[algo.Metrics]) error {
	for _, c := range calls {
		results, err := c.Wait(ctx)
		if err != nil {
			return err
		}
		for _, res := range results {
			if res.Member == 0 {
				r.report.names = append(r.report.names, res.Value.Names...)
				r.report.values = append(r.report.values, res.Value.Values...)
			}
		}
	}
	return nil
}

// close ends what the workers have opened, after the last call.
func (r *languageRunner) close() error {
	for _, w := range r.here {
		if err := w.Close(); err != nil {
			return err
		}
	}
	return nil
}

// run initialises the workers, trains and closes them.
func (r *languageRunner) run(ctx context.Context) error {
	if err := r.InitWorkers(ctx); err != nil {
		return err
	}
	if err := r.Run(ctx); err != nil {
		return err
	}
	return r.close()
}

// quiesce has nothing to wait for.
func (r *languageRunner) quiesce(context.Context) error { return nil }

// describe has nothing to add.
func (r *languageRunner) describe(*report) {}

func (r *languageRunner) shares() (all []worker.Share, err error) {
	for _, w := range r.here {
		all = append(all, w.Save()...)
	}
	return all, nil
}

func (r *languageRunner) load(st worker.State) error {
	for _, w := range r.here {
		if err := w.Load(st); err != nil {
			return err
		}
	}
	return nil
}

func (r *languageRunner) tracers() (all []*worker.Tracer) {
	for _, w := range r.here {
		all = append(all, w.Tracer())
	}
	return all
}
