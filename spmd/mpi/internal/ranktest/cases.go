//go:build mpi

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/spmdtest"
)

// cases runs the conformance suite of transports, one case after the other in one world, and prints
// how long each took.
func cases(ctx context.Context, t spmd.Transport, _ []string) error {
	return spmd.Run(ctx, []spmd.Transport{t}, spmd.Options{Debug: true},
		func(ctx context.Context, w *spmd.World) error {
			for _, c := range spmdtest.Cases() {
				start := time.Now()
				if err := c.Run(ctx, w); err != nil {
					return fmt.Errorf("%s: %w", c.Name, err)
				}
				if w.Rank() == 0 {
					fmt.Printf("%8v %s\n", time.Since(start).Round(time.Millisecond), c.Name)
				}
			}
			if w.Rank() == 0 {
				fmt.Printf("%d cases\n", len(spmdtest.Cases()))
			}
			return nil
		})
}
