//go:build mpi

// Ranks holds the programs that the tests of package collectives run under mpirun. The first argument selects
// the program.
package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/collectives/collectivestest"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/mpi"
)

func main() {
	if len(os.Args) < 2 {
		usage("expected the name of a program")
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
	err = spmd.Run(context.Background(), []spmd.Transport{t}, spmd.Options{StallTimeout: opts.StallTimeout,
		VirtualNodes: nodes()}, func(ctx context.Context, w *spmd.World) error {
		return program(ctx, w, os.Args[2:])
	})
	var f *spmd.Failure
	if err != nil && !errors.As(err, &f) { // a Failure was reported already, and ended the job
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

// nodes returns the number of virtual nodes, which the environment variable RANKS_NODES holds.
func nodes() (n int) {
	fmt.Sscan(os.Getenv("RANKS_NODES"), &n)
	return n
}

// A program is called on every rank with the arguments after its name.
type program func(ctx context.Context, w *spmd.World, args []string) error

var programs = map[string]program{
	"conformance": conformance,
	"library":     library,
	"ordered":     ordered,
	"await":       await,
	"mismatch":    mismatch,
	"alone":       alone,
	"weights":     weights,
}

// conformance runs collectivestest.Conformance, with shared memory and without.
func conformance(ctx context.Context, w *spmd.World, _ []string) error {
	for _, how := range []func(collectives.Host) collectives.Host{nil, byMessages} {
		made, err := collectivestest.Conformance(ctx, w, w.Ranks(), how, collectives.Options{})
		if err != nil {
			return err
		}
		if w.Rank() == 0 {
			fmt.Printf("%d operations\n", made)
		}
	}
	return nil
}

// library runs collectivestest.Conformance for the MPI library's collectives in two modes that a Group does not use:
// in chunks of 999 elements, and by blocking calls. The members are in the reverse order of the ranks. With more
// than two ranks it makes no blocking calls, because they are slow if ranks share cores.
func library(ctx context.Context, w *spmd.World, _ []string) error {
	ranks, hows := w.Ranks(), []func(collectives.Host) collectives.Host{inChunks}
	slices.Reverse(ranks)
	if w.Size() == 2 {
		hows = append(hows, blocking)
	}
	for _, how := range hows {
		made, err := collectivestest.Conformance(ctx, w, ranks, how, collectives.Options{Algorithm: "mpi"})
		if err != nil {
			return err
		}
		if w.Rank() == 0 {
			fmt.Printf("%d operations\n", made)
		}
	}
	return nil
}

// ordered runs collectivestest.Ordered, with one and with two members on each rank.
func ordered(ctx context.Context, w *spmd.World, _ []string) error {
	made, err := collectivestest.Ordered(ctx, w, w.Ranks(), nil)
	if err != nil {
		return err
	}
	if _, err := collectivestest.Ordered(ctx, w, append(w.Ranks(), w.Ranks()...), nil); err != nil {
		return err
	}
	if w.Rank() == 0 {
		fmt.Println("ordered", slices.Sorted(maps.Keys(made)))
	}
	return nil
}

// await lets all ranks wait in a collective for rank 1, which stops itself by SIGSTOP or returns. args are the
// kind, the algorithm, and "stop" or "return".
func await(ctx context.Context, w *spmd.World, args []string) error {
	for kind := spmd.Barrier; kind <= spmd.SendReceive; kind++ {
		if kind.String() == args[0] {
			return collectivestest.Await(ctx, w, args[1], kind, nil, func() error {
				if args[2] == "stop" {
					return syscall.Kill(os.Getpid(), syscall.SIGSTOP)
				}
				return nil
			})
		}
	}
	return fmt.Errorf("no such kind: %s", args[0])
}

// mismatch makes calls that differ between members, in debug mode.
func mismatch(ctx context.Context, w *spmd.World, _ []string) error {
	ends, err := w.NewComm(w.Ranks(), "mismatch")
	if err != nil {
		return err
	}
	g, err := collectives.New(w, ends[0], collectives.Options{Debug: true})
	if err != nil {
		return err
	}
	if w.Rank() == w.Size()-1 {
		return g.Run(ctx, collectives.AllReduce(make([]float64, 8), spmd.Sum))
	}
	return g.Run(ctx, collectives.AllReduce(make([]float32, 8), spmd.Sum))
}

// alone starts operations, and then lets every rank compute without further calls. The operations must complete in the
// meantime.
func alone(ctx context.Context, w *spmd.World, _ []string) error {
	for _, algorithm := range collectives.Algorithms() {
		ends, err := w.NewComm(w.Ranks(), "alone "+algorithm)
		if err != nil {
			return err
		}
		g, err := collectives.New(w, ends[0], collectives.Options{Algorithm: algorithm, Fast: true})
		if err != nil {
			return err
		}
		x := make([]float32, 300_000)
		f := g.Start(ctx, collectives.AllReduce(x, spmd.Sum))
		busy := 1.0
		for !f.Done() && ctx.Err() == nil {
			for range 1000 {
				busy = busy*1.0000001 + 1e-9
			}
		}
		if err := f.Wait(); err != nil || busy < 0 {
			return err
		}
	}
	if w.Rank() == 0 {
		fmt.Println("alone")
	}
	return nil
}

// weights runs collectivestest.Weights twice: from the last and the first rank to all ranks, and from a middle rank
// to some other ranks.
func weights(ctx context.Context, w *spmd.World, _ []string) error {
	last := w.Size() - 1
	compared := 0
	for _, s := range []struct{ sources, readers []int }{{[]int{last, 0}, append(w.Ranks(), last)},
		{[]int{last / 2}, append(w.Ranks()[:last/2], last, last)}} {
		n, err := collectivestest.Weights(ctx, w, s.sources, s.readers)
		if err != nil {
			return err
		}
		compared += n
	}
	if w.Rank() == last {
		fmt.Printf("%d comparisons\n", compared)
	}
	return nil
}

// An apartHost is a host without shared memory.
type apartHost struct{ collectives.Host }

func (apartHost) Shared() (spmd.Shared, bool) { return nil, false }

func byMessages(h collectives.Host) collectives.Host { return apartHost{h} }

// A changedHost is a host that changes every new communicator of the MPI library.
type changedHost struct {
	collectives.Host
	change func(spmd.Native) spmd.Native
}

func (h changedHost) NewNative(ranks []int, label string) (spmd.Native, error) {
	n, err := h.Host.NewNative(ranks, label)
	if err != nil {
		return nil, err
	}
	return h.change(n), nil
}

func inChunks(h collectives.Host) collectives.Host {
	return changedHost{h, func(n spmd.Native) spmd.Native {
		n.(interface{ ChunkAt(elements int) }).ChunkAt(999)
		return n
	}}
}

func blocking(h collectives.Host) collectives.Host {
	return changedHost{h, func(n spmd.Native) spmd.Native { return blockingNative{n} }}
}

type blockingNative struct{ spmd.Native }

func (n blockingNative) Run(_ context.Context, c *spmd.Collective) error { return n.RunBlocking(c) }
