package loop

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
)

// None is the result of a call that has none.
type None struct{}

// Call calls f, called what in messages, on the members of g that are here.
func Call[W any](ctx context.Context, g *spmd.Group[W], what string,
	f func(context.Context, W) error) *spmd.Future[None] {
	return spmd.Call(g, ctx, what, func(ctx context.Context, w W) (None, error) { return None{}, f(ctx, w) })
}

// WaitAll waits for calls in the order given and returns the first error.
func WaitAll(ctx context.Context, futures ...*spmd.Future[None]) error {
	for _, f := range futures {
		if _, err := f.Wait(ctx); err != nil {
			return err
		}
	}
	return nil
}
