package collectives_test

import (
	"context"
	"testing"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/collectives/collectivestest"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// Groups work in every world, with new signals in shared memory.
func TestOperationsInSeveralWorlds(t *testing.T) {
	n := 3
	if testing.Short() {
		n = 2
	}
	for how, wrap := range hosts {
		worlds := make([]int, n)
		err := spmd.Run(t.Context(), local.New(n), spmd.Options{Log: t.Output()},
			func(ctx context.Context, w *spmd.World) error {
				_, err := collectivestest.Conformance(ctx, w, upTo(n), wrap, collectives.Options{})
				if worlds[w.Rank()]++; err == nil && worlds[w.Rank()] < 3 {
					return spmd.Again
				}
				return err
			})
		test.OK(t, err, "%s", how)
	}
}
