//go:build mpi

// Ranktest holds the programs that the tests of spmd/mpi start under mpirun. Each program shows one
// property of the transport. The first argument names the program; see programs.
//
// RANKTEST_PIDS names a folder in which each rank writes a file named by its process ID, so that a test
// can check that no process is left. RANKTEST_STALL is the stall timeout.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/mpi"
)

func main() {
	if len(os.Args) < 2 {
		usage("expected the name of a program")
	}
	run, ok := programs[os.Args[1]]
	if !ok {
		usage(os.Args[1] + ": unknown program")
	}
	if dir := os.Getenv("RANKTEST_PIDS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(os.Getpid())), nil, 0o644); err != nil {
			usage(err.Error())
		}
	}
	var opts mpi.Options
	if s := os.Getenv("RANKTEST_STALL"); s != "" {
		d, err := time.ParseDuration(s)
		if err != nil {
			usage("RANKTEST_STALL: " + err.Error())
		}
		opts.StallTimeout = d
	}
	t, err := mpi.Open(opts)
	if err != nil {
		usage(err.Error())
	}
	if err := run(context.Background(), t, os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "ranktest: rank %d: %v\n", t.Rank(), err)
		t.Abort(1)
	}
}

func usage(text string) {
	fmt.Fprintln(os.Stderr, "ranktest:", text)
	os.Exit(2)
}

// A program receives the open transport and must close it.
type program func(ctx context.Context, t spmd.Transport, args []string) error

var programs = map[string]program{
	"cases":    cases,
	"messages": closing(messages),
	"leak":     leak,
	"mismatch": mismatch,
	"describe": closing(describe),
	"spaces":   spaces,
	"groups":   closing(groups),
	"mixed":    closing(mixed),
	"signals":  closing(signals),
	"progress": closing(progress),
	"allocs":   closing(allocs),
	"idle":     closing(idle),
	"steps":    closing(steps),
	"pingpong": closing(pingpong),
	"ring":     closing(ring),
	"comms":    closing(comms),
	"await":    closing(await),
	"natives":  closing(natives),
	"abandon":  closing(nativeAbandon),
	"callocs":  closing(nativeAllocs),
	"fail":     fail,
	"again":    failAgain,
	"many":     manyWorlds,
	"empty":    emptyWorlds,
	"leaving":  leaving,
	"resume":   closing(resume),
	"end":      closeAndExit,
}

// closing returns a program that runs p and then closes the transport.
func closing(p program) program {
	return func(ctx context.Context, t spmd.Transport, args []string) error {
		if err := p(ctx, t, args); err != nil {
			return err
		}
		return t.Close()
	}
}

// closeAndExit closes the transport, writes a line and ends the process with the exit code in args[0].
func closeAndExit(_ context.Context, t spmd.Transport, args []string) error {
	code, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	if err := t.Close(); err != nil {
		return err
	}
	fmt.Printf("rank %d ends with %d\n", t.Rank(), code)
	os.Exit(code)
	return nil
}

// everyone makes a communicator of all ranks, with k members on each.
func everyone(t spmd.Transport, k int, label string) ([]spmd.Comm, error) {
	var ranks []int
	for r := range t.Size() {
		for range k {
			ranks = append(ranks, r)
		}
	}
	return t.NewComm(ranks, label)
}

// describe prints the transport's description on one line. Lines of different ranks never mix.
func describe(_ context.Context, t spmd.Transport, _ []string) error {
	d := t.Describe()
	fmt.Printf("rank %d of %d, nodes %v, %s, %s, threads %s, shared %s\n", t.Rank(), t.Size(), t.Nodes(), d.Library,
		d.Launcher, d.Threads, d.Shared)
	return nil
}
