package loop

import (
	"context"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/spmd"
)

// None is the result of a call that returns only an error.
type None struct{}

// Call calls f on the members of g in this process. name is the name of the call in error messages.
func Call[W any](ctx context.Context, g *spmd.Group[W], name string,
	f func(context.Context, W) error) *spmd.Future[None] {
	return spmd.Call(g, ctx, name, func(ctx context.Context, w W) (None, error) { return None{}, f(ctx, w) })
}

// WaitAll waits for the calls one after the other. It returns the first error at once.
func WaitAll(ctx context.Context, futures ...*spmd.Future[None]) error {
	for _, f := range futures {
		if _, err := f.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Ask calls f on all actors (the members of g), and returns their answer on all ranks. f must return the same answer on
// all actors.
func Ask[W any](ctx context.Context, l *Loop, g *spmd.Group[W], name string, f func(W) (bool, error)) (answer bool,
	err error) {
	results, err := spmd.Call(g, ctx, name, func(_ context.Context, w W) (bool, error) { return f(w) }).Wait(ctx)
	if err != nil {
		return false, err
	}
	for _, res := range results {
		answer = answer || res.Value
	}
	return l.ActorsSay(ctx, answer)
}

// InOrder calls the steps one after the other. It returns the first error at once.
func InOrder(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// ReportMetrics waits for the calls, and adds the metrics of each to the report of this rank. All members return the
// same metrics, so it takes those of the first member.
func ReportMetrics(ctx context.Context, l *Loop, calls ...*spmd.Future[algo.Metrics]) error {
	for _, c := range calls {
		results, err := c.Wait(ctx)
		if err != nil {
			return err
		}
		for _, res := range results {
			if res.Member == 0 {
				rep := l.Report()
				rep.Names, rep.Values = append(rep.Names, res.Value.Names...), append(rep.Values, res.Value.Values...)
			}
		}
	}
	return nil
}
