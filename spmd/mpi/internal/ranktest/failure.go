//go:build mpi

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// fail makes rank 1 fail by failIn(args[0]), while the other ranks wait for a message from rank 1. If args[1] is
// given, they wait for a signal, a collective or a launch instead.
func fail(ctx context.Context, t spmd.Transport, args []string) error {
	sh, sig, err := signalsOf(ctx, t, 1)
	if err != nil {
		return err
	}
	if err := listShared(t.Rank()); err != nil {
		return err
	}
	stall, err := time.ParseDuration(os.Getenv("RANKTEST_STALL"))
	if err != nil {
		return err
	}
	opts := spmd.Options{StallTimeout: stall, ExitCode: func(error) int { return 77 }}
	return spmd.Run(ctx, []spmd.Transport{t}, opts, func(ctx context.Context, w *spmd.World) error {
		all := make([]int, w.Size())
		for r := range all {
			all[r] = r
		}
		ends, err := w.NewComm(all, "waiting")
		if err != nil {
			return err
		}
		native, err := w.NewNative(all, "waiting")
		if err != nil {
			return err
		}
		if w.Rank() == 1 {
			w.SetStep(42)
			return failIn(w, args[0])
		}
		sum := spmd.Collective{Kind: spmd.AllReduce, DType: tensor.I32, Data: make([]byte, 8)}
		switch strings.Join(args[1:], "") {
		case "signal":
			return sh.Await(ctx, &sig[0], 0, 1)
		case "collective":
			return native.Run(ctx, &sum)
		case "blocking":
			return native.RunBlocking(&sum)
		case "launch":
			_, err := spmd.Launch(w, spmd.GroupSpec{Name: "late", Ranks: all},
				func(m *spmd.Member) (*spmd.Member, error) { return m, nil })
			return err
		}
		r, err := ends[0].Irecv(make([]byte, 8), 1, 0)
		if err != nil {
			return err
		}
		return ends[0].Wait(ctx, []spmd.Request{r})
	})
}

// failIn makes this rank fail in the named way.
func failIn(w *spmd.World, way string) error {
	switch way {
	case "leave":
		return nil
	case "error":
		return errors.New("out of patience")
	case "panic":
		panic("out of its mind")
	case "goroutine":
		w.Go("feeder", func() error { panic("in a goroutine") })
		select {}
	case "exit":
		os.Exit(3)
	case "kill", "stop":
		sig := map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP}[way]
		if err := syscall.Kill(os.Getpid(), sig); err != nil {
			return err
		}
		select {}
	}
	return fmt.Errorf("%s: unknown way to fail", way)
}

// listShared prints the rlinf files that this process maps as shared memory.
func listShared(rank int) error {
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	files := map[string]bool{}
	for _, line := range strings.Split(string(text), "\n") {
		if f := strings.Fields(line); len(f) > 5 && strings.Contains(line, "rlinf") && f[1][3] == 's' {
			files[f[4]+" "+strings.Join(f[5:], " ")] = true // files are distinguished by inode
		}
	}
	fmt.Printf("rank %d shares %d files: %s\n", rank, len(files), strings.Join(slices.Sorted(maps.Keys(files)), ", "))
	return nil
}

// resume suspends every rank for longer than the stall timeout, like a suspended job. A child process resumes
// the rank. The job must not end.
func resume(ctx context.Context, t spmd.Transport, _ []string) error {
	ends, err := everyone(t, 1, "resume")
	if err != nil {
		return err
	}
	c := ends[0]
	defer c.Close()
	pid := os.Getpid()
	waker, err := os.StartProcess("/bin/sh", []string{"sh", "-c", fmt.Sprintf("sleep 5; kill -CONT %d", pid)},
		&os.ProcAttr{})
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		return err
	}
	if _, err := waker.Wait(); err != nil {
		return err
	}
	// Sleep for another stall timeout: if the clock had not been reset, the job would now end.
	time.Sleep(4 * time.Second)
	return nil
}
