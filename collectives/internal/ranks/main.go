//go:build mpi

// Ranks is what the tests of package collectives start under mpirun: a program per thing to show. Its first argument names the program; see programs.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/collectives/collectivestest"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/mpi"
)

func main() {
	if len(os.Args) < 2 {
		usage("want the name of a program")
	}
	program, ok := programs[os.Args[1]]
	if !ok {
		usage(os.Args[1] + ": unknown program")
	}
	opts := mpi.Options{}
	if s := os.Getenv("RANKS_STALL"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			usage("RANKS_STALL: " + err.Error())
		}
		opts.StallTimeout = d
	}
	t, err := mpi.Open(opts)
	if err != nil {
		usage(err.Error())
	}
	var nodes int
	if len(os.Args) > 2 {
		fmt.Sscan(os.Args[2], &nodes)
	}
	err = spmd.Run(context.Background(), []spmd.Transport{t}, spmd.Options{VirtualNodes: nodes}, program)
	var f *spmd.Failure
	if err != nil && !errors.As(err, &f) { // a Failure was reported, and ended the job
		fmt.Fprintf(os.Stderr, "ranks: rank %d: %v\n", t.Rank(), err)
	}
	if err != nil {
		t.Abort(1)
	}
}

func usage(text string) {
	fmt.Fprintln(os.Stderr, "ranks:", text)
	os.Exit(2)
}

var programs = map[string]func(ctx context.Context, w *spmd.World) error{
	"conformance": conformance,
}

// conformance runs the suite, with several members on a rank too.
func conformance(ctx context.Context, w *spmd.World) error {
	made, err := collectivestest.Conformance(ctx, w, everyone(w), nil, collectives.Options{})
	if err == nil && w.Rank() == 0 {
		fmt.Printf("conformance: %d operations on %d ranks\n", made, w.Size())
	}
	return err
}

func everyone(w *spmd.World) []int {
	all := make([]int, w.Size())
	for r := range all {
		all[r] = r
	}
	return all
}
