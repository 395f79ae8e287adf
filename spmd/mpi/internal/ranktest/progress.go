//go:build mpi

package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/rlinf/rlinf/spmd"
)

// progress shows that a large message arrives while its sender computes and does not call MPI. Rank 0 computes until
// rank 1 has received the message and written a file. progress prints how long the messages took.
func progress(ctx context.Context, t spmd.Transport, args []string) error {
	const size, rounds = 1 << 20, 10
	ends, err := everyone(t, 1, "progress")
	if err != nil {
		return err
	}
	c := ends[0]
	defer c.Close()
	b, err := t.Alloc(size)
	if err != nil {
		return err
	}
	reqs := make([]spmd.Request, 1)
	var took []time.Duration
	for i := range rounds {
		arrived := filepath.Join(args[0], strconv.Itoa(i))
		switch t.Rank() {
		case 0:
			// Wait until the receiver is ready, so that the measured time is that of the message only.
			if reqs[0], err = c.Irecv(b[:0], 1, 1); err == nil {
				err = c.Wait(ctx, reqs)
			}
			if err != nil {
				return err
			}
			binary.NativeEndian.PutUint64(b, uint64(time.Now().UnixNano()))
			if reqs[0], err = c.Isend(b, 1, 2); err != nil {
				return err
			}
			for x, _ := os.Stat(arrived); x == nil; x, _ = os.Stat(arrived) {
				for start := time.Now(); time.Since(start) < 200*time.Microsecond; {
				}
			}
			if err := c.Wait(ctx, reqs); err != nil {
				return err
			}
		case 1:
			in, err := c.Irecv(b, 0, 2)
			if err != nil {
				return err
			}
			if reqs[0], err = c.Isend(nil, 0, 1); err != nil {
				return err
			}
			if err := c.Wait(ctx, append(reqs, in)); err != nil {
				return err
			}
			took = append(took, time.Since(time.Unix(0, int64(binary.NativeEndian.Uint64(b)))))
			if err := os.WriteFile(arrived, nil, 0o644); err != nil {
				return err
			}
		}
	}
	if t.Rank() == 1 {
		slices.Sort(took)
		fmt.Printf("1 MiB from a computing sender: median %v, most %v\n", took[rounds/2], took[rounds-1])
	}
	return nil
}

// idle prints the CPU use of a long wait. Rank 0 sleeps, and the other ranks wait for a message from it.
func idle(ctx context.Context, t spmd.Transport, _ []string) error {
	ends, err := everyone(t, 1, "idle")
	if err != nil {
		return err
	}
	c := ends[0]
	defer c.Close()
	used, start := cpu(), time.Now()
	reqs := make([]spmd.Request, t.Size())
	if t.Rank() == 0 {
		time.Sleep(2 * time.Second)
		for to := 1; to < t.Size() && err == nil; to++ {
			reqs[to], err = c.Isend(nil, to, 0)
		}
	} else {
		reqs[0], err = c.Irecv(nil, 0, 0)
	}
	if err == nil {
		err = c.Wait(ctx, reqs)
	}
	waited := time.Since(start)
	what := "waits"
	if t.Rank() == 0 {
		what = "sleeps, nothing under way"
	}
	fmt.Printf("rank %d %s: %.2f%% of a core\n", t.Rank(), what, 100*float64(cpu()-used)/float64(waited))
	return err
}

// steps prints the CPU use of short waits. Rank 0 takes 5 ms for each step, like a simulator. After each step it
// exchanges messages with every other rank.
func steps(ctx context.Context, t spmd.Transport, _ []string) error {
	ends, err := everyone(t, 1, "steps")
	if err != nil {
		return err
	}
	c := ends[0]
	defer c.Close()
	used, start := cpu(), time.Now()
	reqs := make([]spmd.Request, 2*t.Size())
	for range 200 {
		if t.Rank() == 0 {
			time.Sleep(5 * time.Millisecond)
			for r := 1; r < t.Size() && err == nil; r++ {
				if reqs[2*r], err = c.Isend(nil, r, 0); err == nil {
					reqs[2*r+1], err = c.Irecv(nil, r, 0)
				}
			}
		} else if reqs[0], err = c.Irecv(nil, 0, 0); err == nil {
			if err = c.Wait(ctx, reqs); err == nil {
				reqs[0], err = c.Isend(nil, 0, 0)
			}
		}
		if err == nil {
			err = c.Wait(ctx, reqs)
		}
		if err != nil {
			return err
		}
	}
	fmt.Printf("rank %d waits in steps of 5 ms: %.2f%% of a core\n", t.Rank(),
		100*float64(cpu()-used)/float64(time.Since(start)))
	return nil
}

// cpu returns the processor time that this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// swap exchanges a message between ranks 0 and 1.
func swap(ctx context.Context, c spmd.Comm, out, in []byte, reqs []spmd.Request) error {
	var err error
	if reqs[0], err = c.Irecv(in, 1-c.Rank(), 3); err != nil {
		return err
	}
	if reqs[1], err = c.Isend(out, 1-c.Rank(), 3); err != nil {
		return err
	}
	return c.Wait(ctx, reqs)
}

// allocs checks that no message allocates memory. It sends small and large messages, from memory of Alloc and of Go.
func allocs(ctx context.Context, t spmd.Transport, _ []string) error {
	ends, err := everyone(t, 1, "allocs")
	if err != nil {
		return err
	}
	c := ends[0]
	defer c.Close()
	if t.Rank() > 1 {
		return nil
	}
	reqs := make([]spmd.Request, 2)
	for _, size := range []int{64, 1 << 20} {
		inside, err := t.Alloc(2 * size)
		if err != nil {
			return err
		}
		for memory, b := range map[int][]byte{0: inside, 1: make([]byte, 2*size)} {
			var failed error
			n := testing.AllocsPerRun(200, func() {
				if err := swap(ctx, c, b[:size], b[size:], reqs); err != nil {
					failed = err
				}
			})
			if failed != nil {
				return failed
			}
			if n != 0 {
				return fmt.Errorf("a swap of %d bytes in memory %d allocates %v times", size, memory, n)
			}
		}
	}
	return nil
}

// pingpong prints the round-trip time of 1 KiB between ranks 0 and 1. It prints the best of fifty runs,
// which other load disturbs least.
func pingpong(ctx context.Context, t spmd.Transport, _ []string) error {
	ends, err := everyone(t, 1, "pingpong")
	if err != nil {
		return err
	}
	c := ends[0]
	defer c.Close()
	if t.Rank() > 1 {
		return nil
	}
	b, err := t.Alloc(1024)
	if err != nil {
		return err
	}
	reqs := make([]spmd.Request, 1)
	best := time.Duration(1 << 62)
	const rounds = 400
	for range 50 {
		start := time.Now()
		for range rounds {
			for turn := range 2 {
				if turn == t.Rank() {
					reqs[0], err = c.Isend(b, 1-t.Rank(), 7)
				} else {
					reqs[0], err = c.Irecv(b, 1-t.Rank(), 7)
				}
				if err == nil {
					err = c.Wait(ctx, reqs)
				}
				if err != nil {
					return err
				}
			}
		}
		best = min(best, time.Since(start)/rounds)
	}
	if t.Rank() == 0 {
		fmt.Printf("round trip of 1 KiB: %v\n", best)
	}
	return nil
}

// ring prints the time per hop of one message of 1 KiB that goes around a ring of all ranks. It prints the
// best of fifty runs.
func ring(ctx context.Context, t spmd.Transport, _ []string) error {
	ends, err := everyone(t, 1, "ring")
	if err != nil {
		return err
	}
	c := ends[0]
	defer c.Close()
	b, err := t.Alloc(1024)
	if err != nil {
		return err
	}
	next, before := (t.Rank()+1)%t.Size(), (t.Rank()+t.Size()-1)%t.Size()
	reqs := make([]spmd.Request, 1)
	best := time.Duration(1 << 62)
	const rounds = 100
	for range 50 {
		start := time.Now()
		for range rounds {
			for turn := range 2 {
				if (turn == 0) == (t.Rank() == 0) { // rank 0 sends first
					reqs[0], err = c.Isend(b, next, 7)
				} else {
					reqs[0], err = c.Irecv(b, before, 7)
				}
				if err == nil {
					err = c.Wait(ctx, reqs)
				}
				if err != nil {
					return err
				}
			}
		}
		best = min(best, time.Since(start)/rounds)
	}
	if t.Rank() == 0 {
		fmt.Printf("a hop of 1 KiB in a ring of %d: %v\n", t.Size(), best/time.Duration(t.Size()))
	}
	return nil
}

// comms prints how long it takes to make a communicator of all ranks.
func comms(_ context.Context, t spmd.Transport, _ []string) error {
	const n = 20
	start := time.Now()
	for range n {
		ends, err := everyone(t, 1, "one of many")
		if err != nil {
			return err
		}
		if err := ends[0].Close(); err != nil {
			return err
		}
	}
	if t.Rank() == 0 {
		fmt.Printf("a communicator of %d ranks: %v\n", t.Size(), (time.Since(start) / n).Round(time.Microsecond))
	}
	return nil
}

// signals shows that Go's signal handlers are in place after MPI has started: a nil pointer causes a panic
// that can be recovered, and USR1 and USR2 arrive on a channel while other goroutines compute.
func signals(ctx context.Context, t spmd.Transport, _ []string) error {
	ends, err := everyone(t, 1, "signals")
	if err != nil {
		return err
	}
	c := ends[0]
	defer c.Close()
	recovered := false
	func() {
		defer func() { recovered = recover() != nil }()
		var p *int
		*p = 1
	}()
	if !recovered {
		return fmt.Errorf("a nil pointer gave no panic")
	}
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGUSR1, syscall.SIGUSR2)
	stop := make(chan struct{})
	for range 2 { // goroutines that run on their own stacks when a signal arrives
		go func() {
			for x := 0; ; x++ {
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
	}
	defer close(stop)
	for i := range 100 {
		s := []syscall.Signal{syscall.SIGUSR1, syscall.SIGUSR2}[i%2]
		if err := syscall.Kill(os.Getpid(), s); err != nil {
			return err
		}
		if g := <-got; g != s {
			return fmt.Errorf("signal %v, want %v", g, s)
		}
	}
	return nil
}
