package collectives_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/collectives/collectivestest"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// Every operation by every algorithm in every type, on groups of 1 to 8, by shared memory and by messages, on one node and on several.
func TestConformance(t *testing.T) {
	for _, n := range []int{1, 2, 3, 4, 5, 7, 8} {
		for how, wrap := range map[string]func(collectives.Host) collectives.Host{"memory": nil, "messages": func(h collectives.Host) collectives.Host { return apart{h} }} {
			for _, nodes := range []int{1, 2, 3} {
				if nodes > n || nodes > 1 && nodes == n {
					continue
				}
				t.Run(fmt.Sprintf("%d members, %d nodes, %s", n, nodes, how), func(t *testing.T) {
					err := spmd.Run(t.Context(), local.New(n), spmd.Options{Log: t.Output(), VirtualNodes: nodes}, func(ctx context.Context, w *spmd.World) error {
						made, err := collectivestest.Conformance(ctx, w, upTo(n), wrap)
						if w.Rank() == 0 {
							t.Logf("%d operations", made)
						}
						return err
					})
					if err != nil {
						t.Fatal(err)
					}
				})
			}
		}
	}
}
