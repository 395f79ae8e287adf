package rolestest

import (
	"context"
	"testing"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// OnRanks runs f on n goroutine ranks. It passes f a group and a communicator of all ranks.
func OnRanks(t *testing.T, n int,
	f func(ctx context.Context, rank int, g *collectives.Group, c spmd.Comm) error) error {
	t.Helper()
	return spmd.Run(t.Context(), local.New(n), spmd.Options{Log: t.Output()},
		func(ctx context.Context, w *spmd.World) error {
			state, err := w.NewComm(w.Ranks(), "state")
			if err != nil {
				return err
			}
			pieces, err := w.NewComm(w.Ranks(), "pieces")
			if err != nil {
				return err
			}
			g, err := collectives.New(w, state[0], collectives.Options{})
			if err != nil {
				return err
			}
			return f(ctx, w.Rank(), g, pieces[0])
		})
}
