package classifier

import (
	"context"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// A runner trains a classifier. Every rank runs one.
type runner struct {
	plan  *plan
	loop  *loop.Loop
	actor *spmd.Group[*worker]
}

// newRunner launches the actors. Every rank must call it.
func newRunner(ctx context.Context, c *loop.Cluster) (r *runner, err error) {
	r = &runner{plan: loop.SharedOf(c).(*shared).plan}
	place := loop.NewHybridComponentPlacement(c).Strategy("actor")
	if r.actor, err = loop.Launch(ctx, c, place, newWorker); err != nil {
		return nil, err
	}
	if r.loop, err = loop.New(c, leader{r}); err != nil {
		return nil, err
	}
	keys, hashes := r.plan.inputs()
	return r, r.loop.SameOnAllRanks(ctx, keys, hashes)
}

// run trains until the last step, until validation stops it, or until the ranks agree to stop.
func (r *runner) run(ctx context.Context) error {
	for {
		more, err := r.loop.Next(ctx)
		if err != nil || !more {
			return err
		}
		rep := r.loop.Report()
		rep.Names, rep.Values, rep.Answers, rep.Stop = nil, nil, nil, nil
		if err := r.train(ctx); err != nil {
			return err
		}
		if !r.plan.EvaluatesAt(r.loop.GlobalStep()) {
			continue
		}
		if err := r.loop.Timed(loop.Evaluating, ctx, r.evaluate); err != nil {
			return err
		}
	}
}

// train makes one optimiser step on all actors.
func (r *runner) train(ctx context.Context) error {
	err := r.loop.Timed(loop.ActorTraining, ctx, func(ctx context.Context) error {
		return r.call(ctx, "run_training", func(ctx context.Context, w *worker) (algo.Metrics, error) {
			return w.train(ctx, r.loop.GlobalStep())
		})
	})
	if err == nil {
		r.loop.Trained()
	}
	return err
}

// evaluate measures the validation images. If training stops early, it stops the loop on all ranks. The last evaluation
// reports the table of thresholds.
func (r *runner) evaluate(ctx context.Context) error {
	rep, enough := r.loop.Report(), false
	training := len(rep.Names)
	if err := r.call(ctx, "evaluate", evaluate); err != nil {
		return err
	}
	drop := func() { rep.Names, rep.Values = rep.Names[:training], rep.Values[:training] }
	if err := r.loop.EndFailedEvaluation(ctx, drop, loop.Evaluated(r.actor)); err != nil {
		return err
	}
	for _, w := range r.actor.Here() {
		stop := w.stop.Observe(w.evaluated)
		if w.m.Index() != 0 { // all actors have the same metrics
			continue
		}
		enough, rep.Stop = stop, w.stop.Describe()
		if stop || r.loop.GlobalStep() >= r.plan.MaxSteps {
			rep.Answers = w.table
		}
	}
	if !r.plan.Config.Runner.EarlyStop.Enabled {
		return nil
	}
	enough, err := r.loop.ActorsSay(ctx, enough)
	if enough && err == nil {
		r.loop.StopEarly()
	}
	return err
}

func evaluate(ctx context.Context, w *worker) (algo.Metrics, error) { return w.evaluate(ctx) }

// call calls f on the actors, and adds the metrics of the first one to the report.
func (r *runner) call(ctx context.Context, name string, f func(context.Context, *worker) (algo.Metrics, error)) error {
	return loop.ReportMetrics(ctx, r.loop, spmd.Call(r.actor, ctx, name, f))
}

// A leader is the loop.Leader of a runner.
type leader struct{ *runner }

var _ loop.Leader = leader{}

// Quiesce does nothing, because workers are idle between iterations.
func (leader) Quiesce(context.Context) error { return nil }

// Describe does nothing, because the calls have already added their metrics.
func (leader) Describe(*loop.RankReport) {}

// Settle does nothing, because no messages are under way between iterations.
func (leader) Settle(context.Context) error { return nil }

// Components returns the components of the job.
func (leader) Components() []string { return []string{"actor"} }

// Workers returns the workers of this rank.
func (r leader) Workers() (all []loop.Worker) {
	for _, w := range r.actor.Here() {
		all = append(all, w)
	}
	return all
}

// Restored does nothing, because nobody else has the parameters.
func (leader) Restored() {}
