//go:build mpi

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/spmdtest"
)

// manyWorlds runs spmdtest.Many with args[0] worlds.
func manyWorlds(ctx context.Context, t spmd.Transport, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	return spmd.Run(ctx, []spmd.Transport{t}, spmd.Options{}, spmdtest.Many(n))
}

// emptyWorlds measures how long the change from one empty world to the next takes.
func emptyWorlds(ctx context.Context, t spmd.Transport, _ []string) error {
	const n = 200
	var start time.Time
	world := 0
	return spmd.Run(ctx, []spmd.Transport{t}, spmd.Options{}, func(_ context.Context, w *spmd.World) error {
		if world++; world == 1 {
			start = time.Now()
		}
		if world <= n {
			return spmd.Again
		}
		if w.Rank() == 0 {
			fmt.Printf("%d ranks: an empty change of worlds takes %v\n", w.Size(),
				(time.Since(start) / n).Round(time.Microsecond))
		}
		return nil
	})
}

// leaving runs spmdtest.Leaving with a stall timeout of a second.
func leaving(ctx context.Context, t spmd.Transport, _ []string) error {
	return spmd.Run(ctx, []spmd.Transport{t}, spmd.Options{StallTimeout: time.Second}, spmdtest.Leaving())
}

// failAgain makes rank 1 fail as args[0] says, while worlds follow each other quickly.
func failAgain(ctx context.Context, t spmd.Transport, args []string) error {
	if args[0] == "kill" && t.Rank() == 1 {
		time.AfterFunc(200*time.Millisecond, func() { syscall.Kill(os.Getpid(), syscall.SIGKILL) })
	}
	world := 0
	opts := spmd.Options{ExitCode: func(error) int { return 77 }}
	return spmd.Run(ctx, []spmd.Transport{t}, opts, func(_ context.Context, w *spmd.World) error {
		world++
		if args[0] == "kill" || world < 5 {
			return spmd.Again
		}
		w.SetStep(42)
		switch {
		case args[0] == "keep":
			w.Keep(make([]byte, 8))
		case w.Rank() != 1:
		case args[0] == "panic":
			panic("out of its mind")
		case args[0] == "error":
			return errors.New("out of patience")
		case args[0] == "mix":
			return nil
		}
		return spmd.Again
	})
}
