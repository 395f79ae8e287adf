//go:build mpi

// Ranktest is the program that the tests of spmd/mpi start under mpirun. Its first argument names what to do; see the table in main.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/mpi"
)

func main() {
	what, args := "", []string(nil)
	if len(os.Args) > 1 {
		what, args = os.Args[1], os.Args[2:]
	}
	run, ok := programs[what]
	if !ok {
		fmt.Fprintf(os.Stderr, "ranktest: %q: unknown program\n", what)
		os.Exit(2)
	}
	opts := mpi.Options{}
	if s := os.Getenv("RANKTEST_STALL"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			fmt.Fprintln(os.Stderr, "ranktest:", err)
			os.Exit(2)
		}
		opts.StallTimeout = d
	}
	t, err := mpi.Open(opts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "ranktest:", err)
		os.Exit(2)
	}
	err = run(context.Background(), t, args)
	if err == nil {
		err = t.Close()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "ranktest: rank %d: %v\n", t.Rank(), err)
		t.Abort(1)
	}
}

var programs = map[string]func(ctx context.Context, t spmd.Transport, args []string) error{
	"pingpong": pingpong,
}

// all makes a communicator of all ranks, one member each.
func all(t spmd.Transport, label string) (spmd.Comm, error) {
	ranks := make([]int, t.Size())
	for r := range ranks {
		ranks[r] = r
	}
	ends, err := t.NewComm(ranks, label)
	if err != nil {
		return nil, err
	}
	return ends[0], nil
}

// pingpong prints the median round trip between ranks 0 and 1.
func pingpong(ctx context.Context, t spmd.Transport, args []string) error {
	c, err := all(t, "pingpong")
	if err != nil {
		return err
	}
	defer c.Close()
	if t.Rank() > 1 {
		return nil
	}
	buf, err := t.Alloc(1024)
	if err != nil {
		return err
	}
	reqs := make([]spmd.Request, 1)
	const rounds = 20000
	start := time.Now()
	for i := range rounds + rounds/10 {
		if i == rounds/10 {
			start = time.Now()
		}
		for turn := range 2 {
			if turn == t.Rank() {
				reqs[0], err = c.Isend(buf, 1-t.Rank(), 7)
			} else {
				reqs[0], err = c.Irecv(buf, 1-t.Rank(), 7)
			}
			if err == nil {
				err = c.Wait(ctx, reqs)
			}
			if err != nil {
				return err
			}
		}
	}
	if t.Rank() == 0 {
		fmt.Printf("%+v\nround trip of %d bytes: %.2f us\n", t.Describe(), len(buf), float64(time.Since(start).Microseconds())/rounds)
	}
	return nil
}
