package language

import (
	"context"
	"errors"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/language/worker"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// A runner is the common part of SFTRunner and ReasoningRunner: the loop, and the workers of this rank.
type runner struct {
	loop     *loop.Loop
	plan     *plan.Plan
	workers  []languageWorker
	phases   []func(context.Context) error // of an iteration, without the evaluation
	evaluate func(context.Context) error
	closed   bool // the workers have been closed
}

// A languageWorker is a worker of a job that trains a language model.
type languageWorker interface {
	loop.Worker
	Close() error
}

// newRunner returns a runner without workers. It checks that all ranks have read the same inputs. Every rank must call
// newRunner.
func newRunner(ctx context.Context, c *loop.Cluster, evaluate func(context.Context) error,
	phases ...func(context.Context) error) (*runner, error) {
	shared, err := worker.SharedOf(c)
	if err != nil {
		return nil, err
	}
	r := &runner{plan: shared.Plan(), phases: phases, evaluate: evaluate}
	if r.loop, err = loop.New(c, leader{r}); err != nil {
		return nil, err
	}
	r.loop.Call(loop.GenerateRollouts, "generation")
	keys, hashes := r.plan.Inputs()
	return r, r.loop.SameOnAllRanks(ctx, keys, hashes)
}

// addWorkers adds this rank's workers of g. g may be nil.
func addWorkers[W languageWorker](r *runner, g *spmd.Group[W]) {
	if g == nil {
		return
	}
	for _, w := range g.Here() {
		r.workers = append(r.workers, w)
	}
}

// Next ends an iteration, and reports whether another iteration follows: see loop.Loop.Next. If none follows, it closes
// the workers.
func (r *runner) Next(ctx context.Context) (more bool, err error) {
	if more, err = r.loop.Next(ctx); err != nil {
		return false, err
	}
	if !more {
		return false, r.close()
	}
	rep := r.loop.Report()
	rep.Names, rep.Values, rep.Answers, rep.Stop = nil, nil, nil, nil
	return true, nil
}

// GlobalStep returns the number of iterations trained, in this run and in the runs that it resumes.
func (r *runner) GlobalStep() int64 { return r.loop.GlobalStep() }

// Log adds a value to a metric that the program defines: see loop.Loop.Log.
func (r *runner) Log(name string, value float64) { r.loop.Log(name, value) }

// Carry registers a component that the program itself has launched: see loop.Loop.Carry.
func (r *runner) Carry(component string, members ...loop.OwnWorker) {
	r.loop.Carry(component, members...)
}

// InitWorkers loads the checkpoint into the workers, if the run resumes. A program calls InitWorkers once, before the
// first step.
func (r *runner) InitWorkers(ctx context.Context) error { return r.loop.Restore(ctx) }

// Run trains until the last step, until validation stops it, or until the ranks agree to stop.
func (r *runner) Run(ctx context.Context) error {
	for {
		more, err := r.Next(ctx)
		if err != nil || !more {
			return err
		}
		if err := loop.InOrder(ctx, append(r.phases, r.EvaluateIfDue)...); err != nil {
			return err
		}
	}
}

// EvaluateIfDue calls Evaluate every runner.val_check_interval steps, and after the last step.
func (r *runner) EvaluateIfDue(ctx context.Context) error {
	if !r.plan.EvaluatesAt(r.loop.GlobalStep()) {
		return nil
	}
	return r.Evaluate(ctx)
}

// Evaluate measures the newest weights on data.val_data_paths. The configuration must have evaluations
// (runner.val_check_interval).
func (r *runner) Evaluate(ctx context.Context) error {
	if !r.plan.Config.Evaluates() {
		return errors.New("runner: evaluate: the configuration has no evaluations (runner.val_check_interval)")
	}
	return r.loop.Timed(loop.Evaluating, ctx, r.evaluate)
}

// callAndReport calls f on the members of g, and adds the metrics of the first member to the report.
func callAndReport[W any](ctx context.Context, r *runner, g *spmd.Group[W], name string,
	f func(context.Context, W) (algo.Metrics, error)) error {
	return loop.ReportMetrics(ctx, r.loop, spmd.Call(g, ctx, name, f))
}

// close closes the workers after the last call.
func (r *runner) close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	for _, w := range r.workers {
		if err := w.Close(); err != nil {
			return err
		}
	}
	return nil
}

// A leader is the loop.Leader of a runner.
type leader struct{ *runner }

var _ loop.Leader = leader{}

// Quiesce does nothing, because workers are idle between iterations.
func (r leader) Quiesce(context.Context) error { return nil }

// Describe does nothing, because the calls have already added their metrics.
func (r leader) Describe(*loop.RankReport) {}

// Settle does nothing, because no messages are under way between iterations.
func (r leader) Settle(context.Context) error { return nil }

// Components returns the components of a job that trains a language model.
func (r leader) Components() []string {
	return []string{"actor", "rollout", "reward", "inference", "critic"}
}

// Workers returns the workers of this rank.
func (r leader) Workers() (all []loop.Worker) {
	for _, w := range r.workers {
		all = append(all, w)
	}
	return all
}

// Restored does nothing, because every iteration begins with the newest weights.
func (r leader) Restored() {}
