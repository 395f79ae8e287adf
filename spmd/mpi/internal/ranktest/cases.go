//go:build mpi

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/spmdtest"
)

// cases runs the conformance suite of transports, each case in a world of its own, and prints the duration
// of each case.
func cases(ctx context.Context, t spmd.Transport, _ []string) error {
	suite := spmdtest.Cases()
	at, start := 0, time.Now()
	return spmd.Run(ctx, []spmd.Transport{t}, spmd.Options{Debug: true},
		func(ctx context.Context, w *spmd.World) error {
			c := suite[at]
			if err := c.Run(ctx, w); err != nil {
				return fmt.Errorf("%s: %w", c.Name, err)
			}
			if w.Rank() == 0 {
				fmt.Printf("%8v %s\n", time.Since(start).Round(time.Millisecond), c.Name)
			}
			start = time.Now()
			if at++; at < len(suite) {
				return spmd.Again
			}
			if w.Rank() == 0 {
				fmt.Printf("%d cases\n", len(suite))
			}
			return nil
		})
}
