package loop

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
)

// An EvaluationResult says whether workers of a group failed in an evaluation, and with which error.
type EvaluationResult struct {
	failures int                                      // number of workers of this rank that failed
	fail     func(context.Context) *spmd.Future[None] // returns the error of a worker from a group call
}

// Evaluated returns the EvaluationResult of g. EvaluationError returns the error with which the last evaluation of a
// worker failed, or nil.
func Evaluated[W interface{ EvaluationError() error }](g *spmd.Group[W]) EvaluationResult {
	e := EvaluationResult{fail: func(ctx context.Context) *spmd.Future[None] {
		return Call(ctx, g, "evaluate", func(_ context.Context, w W) error { return w.EvaluationError() })
	}}
	for _, w := range g.Here() {
		if w.EvaluationError() != nil {
			e.failures++
		}
	}
	return e
}

// EndFailedEvaluation ends the run with the error of an evaluation that has failed on any rank. Before that, it calls
// drop to forget the results of the evaluation, and saves a checkpoint of the iterations trained, without a score.
// groups are all groups that took part. All ranks must call EndFailedEvaluation, with nothing in flight. It returns
// when all ranks have called it.
func (l *Loop) EndFailedEvaluation(ctx context.Context, drop func(), groups ...EvaluationResult) error {
	failures := []float64{0}
	for _, e := range groups {
		failures[0] += float64(e.failures)
	}
	if err := l.Sum(ctx, failures); err != nil || failures[0] == 0 {
		return err
	}
	drop()
	l.salvaging = true
	if _, err := l.Next(ctx); err != nil {
		return err
	}
	if err := l.Barrier(ctx); err != nil { // rank 0 has written the checkpoint
		return err
	}
	var calls []*spmd.Future[None]
	for _, e := range groups {
		calls = append(calls, e.fail(ctx))
	}
	if err := WaitAll(ctx, calls...); err != nil {
		return err
	}
	<-ctx.Done() // the error is on other ranks
	return context.Cause(ctx)
}
