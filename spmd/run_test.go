package spmd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// run runs main on n goroutine ranks, which must succeed.
func run(t *testing.T, n int, main func(ctx context.Context, w *spmd.World) error) {
	t.Helper()
	test.OK(t, spmd.Run(context.Background(), local.New(n), spmd.Options{Log: t.Output(), Debug: true},
		main))
}

// fail runs main on n goroutine ranks and returns the failure and the log.
func fail(t *testing.T, n int, opts spmd.Options, main func(ctx context.Context, w *spmd.World) error) (*spmd.Failure,
	string) {
	t.Helper()
	var log bytes.Buffer
	opts.Log = &log
	err := spmd.Run(context.Background(), local.New(n), opts, main)
	var f *spmd.Failure
	if !errors.As(err, &f) {
		t.Fatalf("Run returned %v, want a *Failure", err)
	}
	return f, log.String()
}

func TestDebugListsGroups(t *testing.T) {
	for _, debug := range []bool{false, true} {
		var log bytes.Buffer
		err := spmd.Run(t.Context(), local.New(3), spmd.Options{Debug: debug, Log: &log},
			func(_ context.Context, w *spmd.World) error {
				_, err := spmd.Launch(w, spmd.GroupSpec{Name: "actor", Ranks: []int{2, 0, 2}}, newWorker)
				if err == nil {
					_, err = spmd.Launch(w, spmd.GroupSpec{Name: "env", Ranks: []int{1}}, newWorker)
				}
				return err
			})
		test.OK(t, err)
		got := strings.Split(strings.TrimSpace(log.String()), "\n")
		slices.Sort(got) // no rank is in both groups
		want := []string{""}
		if debug {
			want = []string{`group "actor": ranks [2 0]`, `group "env": ranks [1]`}
		}
		test.EqualSlices(t, got, want, "debug %v", debug)
	}
}

type worker struct{ index int }

func newWorker(m *spmd.Member) (*worker, error) { return &worker{m.Index()}, nil }

var errBoom = errors.New("boom")

func TestFirstErrorEndsTheJob(t *testing.T) {
	for _, c := range []struct {
		name string
		main func(ctx context.Context, w *spmd.World) error
		want string // the last line of the log contains this
	}{
		{"main returns an error", onRank(1, boom), "rank 1 host HOST: boom"},
		{"main panics", onRank(2, panics), "rank 2 host HOST: panic: boom"},
		{"a goroutine of World.Go panics", pollerPanics, "poller rank 0 host HOST step 3: panic: boom"},
		{"a goroutine ends by Goexit", onRank(0, goexit), "rank 0 host HOST: a goroutine ended by runtime.Goexit"},
		{"a worker returns an error", onWorker(3, boom), "actor[3] rank 2 host HOST step 12: train: boom"},
		{"a worker panics", onWorker(1, panics), "actor[1] rank 1 host HOST step 12: panic: boom"},
		{"a worker cannot be made", noWorker, "env[2] rank 2 host HOST: new: boom"},
		{"others wait in communication", othersWait, "rank 0 host HOST: boom"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var code atomic.Int32
			opts := spmd.Options{ExitCode: func(err error) int { code.Store(7); return 7 }}
			f, log := fail(t, 3, opts, c.main)
			line := strings.TrimSuffix(log, "\n")
			line = line[strings.LastIndexByte(line, '\n')+1:]
			if got := strings.Replace(line, f.Host, "HOST", 1); got != c.want {
				t.Errorf("the last line is %q, want %q", got, c.want)
			}
			if !strings.Contains(c.want, "Goexit") && !errors.Is(f, errBoom) {
				t.Errorf("the failure %v does not wrap its cause", f)
			}
			if panicked := strings.Contains(c.want, "panic"); panicked != (f.Stack != nil) ||
				panicked && !strings.Contains(log, "run_test.go") {
				t.Errorf("the stack is %q", f.Stack)
			}
			if code.Load() != 7 {
				t.Error("the exit code was not asked for")
			}
		})
	}
}

func boom() error   { return errBoom }
func panics() error { panic(errBoom) }
func goexit() error { runtime.Goexit(); return nil }

// onRank returns a program in which one rank runs f and the others wait for the end of the job.
func onRank(rank int, f func() error) func(context.Context, *spmd.World) error {
	return func(ctx context.Context, w *spmd.World) error {
		if w.Rank() == rank {
			return f()
		}
		<-ctx.Done()
		return context.Cause(ctx)
	}
}

// onWorker returns a program in which one worker runs f in step 12 and the others wait for the end of the job.
func onWorker(index int, f func() error) func(context.Context, *spmd.World) error {
	return func(ctx context.Context, w *spmd.World) error {
		g, err := spmd.Launch(w, spmd.GroupSpec{Name: "actor", Ranks: []int{0, 1, 2, 2}}, newWorker)
		if err != nil {
			return err
		}
		w.SetStep(12)
		_, err = spmd.Call(g, ctx, "train", func(ctx context.Context, w *worker) (int, error) {
			if w.index == index {
				return 0, f()
			}
			<-ctx.Done()
			return 0, context.Cause(ctx)
		}).Wait(ctx)
		return err
	}
}

func pollerPanics(ctx context.Context, w *spmd.World) error {
	w.SetStep(3)
	w.Go("poller", func() error { return onRank(0, panics)(ctx, w) })
	return nil
}

func noWorker(ctx context.Context, w *spmd.World) error {
	_, err := spmd.Launch(w, spmd.GroupSpec{Name: "env", Ranks: []int{0, 1, 2}},
		func(m *spmd.Member) (*worker, error) {
			if m.Index() == 2 {
				return nil, errBoom
			}
			return newWorker(m)
		})
	if err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// othersWait waits with a context of its own, so that the transport must end the wait.
func othersWait(_ context.Context, w *spmd.World) error {
	ends, err := w.NewComm([]int{0, 1, 2}, "wait")
	if err != nil {
		return err
	}
	if w.Rank() == 0 {
		return errBoom
	}
	r, err := ends[0].Irecv(make([]byte, 1), 0, 0)
	if err != nil {
		return err
	}
	return ends[0].Wait(context.Background(), []spmd.Request{r})
}

// After its context has ended, main can still finish in order.
func TestParentContext(t *testing.T) {
	cause := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(context.Background())
	var launched sync.WaitGroup
	launched.Add(2)
	err := spmd.Run(ctx, local.New(2), spmd.Options{Log: t.Output()}, func(ctx context.Context, w *spmd.World) error {
		g, err := spmd.Launch(w, spmd.GroupSpec{Name: "g", Ranks: []int{0, 1}}, newWorker)
		if err != nil {
			return err
		}
		launched.Done()
		launched.Wait()
		cancel(cause)
		<-ctx.Done()
		if context.Cause(ctx) != cause {
			return fmt.Errorf("the cause is %v", context.Cause(ctx))
		}
		// An orderly end is still possible: calls run, and no failure is reported.
		own := context.WithoutCancel(ctx)
		_, err = spmd.Call(g, own, "save", func(context.Context, *worker) (int, error) { return 1, nil }).Wait(own)
		return err
	})
	test.OK(t, err)
}

func TestCallsRunInOrder(t *testing.T) {
	run(t, 3, func(ctx context.Context, w *spmd.World) error {
		ranks := []int{0, 0, 2, 0, 1} // uneven
		type state struct{ seen []int }
		g, err := spmd.Launch(w, spmd.GroupSpec{Name: "g", Ranks: ranks}, func(m *spmd.Member) (*state, error) {
			if m.Group() != "g" || m.Size() != 5 || m.World() != w || ranks[m.Index()] != w.Rank() {
				return nil, fmt.Errorf("member %d of %d of %q on rank %d", m.Index(), m.Size(), m.Group(), w.Rank())
			}
			return new(state), nil
		})
		if err != nil {
			return err
		}
		var futures []*spmd.Future[int]
		for i := range 100 {
			futures = append(futures, spmd.Call(g, ctx, "see", func(_ context.Context, s *state) (int, error) {
				s.seen = append(s.seen, i)
				return len(s.seen), nil
			}))
		}
		var mine []int
		for m, r := range ranks {
			if r == w.Rank() {
				mine = append(mine, m)
			}
		}
		for i, f := range futures {
			res, err := f.Wait(ctx)
			if err != nil {
				return err
			}
			if !f.Done() || len(res) != len(mine) {
				return fmt.Errorf("call %d: done %v, %d results, want %d", i, f.Done(), len(res), len(mine))
			}
			for k, r := range res {
				if r.Member != mine[k] || r.Value != i+1 || r.Duration <= 0 {
					return fmt.Errorf("call %d: %+v, want member %d and value %d", i, r, mine[k], i+1)
				}
			}
		}
		for _, s := range g.Here() {
			if len(s.seen) != 100 || !slices.IsSorted(s.seen) {
				return fmt.Errorf("the calls ran as %v", s.seen)
			}
		}
		return nil
	})
}

func TestExecuteOn(t *testing.T) {
	run(t, 3, func(ctx context.Context, w *spmd.World) error {
		g, err := spmd.Launch(w, spmd.GroupSpec{Name: "g", Ranks: []int{0, 1, 2, 1}}, newWorker)
		if err != nil {
			return err
		}
		index := func(_ context.Context, k *worker) (int, error) { return k.index, nil }
		some, err := spmd.Call(g.ExecuteOn(3, 0), ctx, "index", index).Wait(ctx)
		if err != nil {
			return err
		}
		all, err := spmd.Call(g, ctx, "index", index).Wait(ctx) // the view of ExecuteOn has not changed the group
		if err != nil {
			return err
		}
		none, err := spmd.Call(g.ExecuteOn(), ctx, "index", index).Wait(ctx)
		if err != nil {
			return err
		}
		want := map[int][2]int{0: {1, 1}, 1: {1, 2}, 2: {0, 1}}[w.Rank()]
		if len(some) != want[0] || len(all) != want[1] || len(none) != 0 {
			return fmt.Errorf("rank %d: %d results on some, %d on all, %d on none", w.Rank(), len(some), len(all),
				len(none))
		}
		if w.Rank() == 1 && some[0].Value != 3 {
			return fmt.Errorf("rank 1 ran member %d", some[0].Value)
		}
		return nil
	})
}

// The workers of one rank run concurrently: each of two waits for a message of the other.
func TestWorkersRunSideBySide(t *testing.T) {
	run(t, 2, func(ctx context.Context, w *spmd.World) error {
		type pair struct{ grad, metrics spmd.Comm }
		g, err := spmd.Launch(w,
			spmd.GroupSpec{Name: "g", Ranks: []int{0, 1, 0, 1}, Comms: []string{"grad", "metrics"}},
			func(m *spmd.Member) (pair, error) {
				p := pair{m.Comm("grad"), m.Comm("metrics")}
				if p.grad.Rank() != m.Index() || p.grad.Size() != 4 || p.grad == p.metrics {
					return p, fmt.Errorf("member %d has communicators of ranks %d and %d", m.Index(), p.grad.Rank(),
						p.metrics.Rank())
				}
				return p, nil
			})
		if err != nil {
			return err
		}
		_, err = spmd.Call(g, ctx, "swap", func(ctx context.Context, p pair) (struct{}, error) {
			for _, c := range []spmd.Comm{p.grad, p.metrics} {
				peer, in := 3-c.Rank(), make([]byte, 1)
				s, err := c.Isend([]byte{byte(c.Rank())}, peer, 0)
				if err != nil {
					return struct{}{}, err
				}
				r, err := c.Irecv(in, peer, 0)
				if err != nil {
					return struct{}{}, err
				}
				if err := c.Wait(ctx, []spmd.Request{r, s}); err != nil {
					return struct{}{}, err
				}
				if int(in[0]) != peer {
					return struct{}{}, fmt.Errorf("got %d from %d", in[0], peer)
				}
			}
			return struct{}{}, nil
		}).Wait(ctx)
		return err
	})
}

func TestLaunchRefuses(t *testing.T) {
	for _, c := range []struct {
		name  string
		specs []spmd.GroupSpec
		want  string
	}{
		{"no members", []spmd.GroupSpec{{Name: "g"}}, `launch group "g": no members`},
		{"rank beyond the world", []spmd.GroupSpec{{Name: "g", Ranks: []int{0, 2}}},
			`launch group "g": member 1 on rank 2, in a world of 2 ranks`},
		{"direct messages to nobody", []spmd.GroupSpec{{Name: "g", Ranks: []int{0}, Direct: []string{"h"}}},
			`launch group "g": direct messages to "h": there is no such group yet`},
		{"same name", []spmd.GroupSpec{{Name: "g", Ranks: []int{0}}, {Name: "g", Ranks: []int{1}}},
			`launch group "g": there is a group of this name`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, _ := fail(t, 2, spmd.Options{}, func(ctx context.Context, w *spmd.World) error {
				for _, s := range c.specs {
					if _, err := spmd.Launch(w, s, newWorker); err != nil {
						return err
					}
				}
				return nil
			})
			if f.Err.Error() != c.want {
				t.Errorf("got %q, want %q", f.Err, c.want)
			}
		})
	}
}

// Ranks that have made the same calls have equal hashes, and other ranks have not.
func TestCallsNamesTheRankThatDiffers(t *testing.T) {
	var hash [3]uint64
	var n [3]int64
	run(t, 3, func(ctx context.Context, w *spmd.World) error {
		g, err := spmd.Launch(w, spmd.GroupSpec{Name: "g", Ranks: []int{0, 1, 2}}, newWorker)
		if err != nil {
			return err
		}
		what := "train"
		if w.Rank() == 2 {
			what = "eval"
		}
		_, err = spmd.Call(g, ctx, what, func(context.Context, *worker) (int, error) { return 0, nil }).Wait(ctx)
		n[w.Rank()], hash[w.Rank()] = w.Calls()
		return err
	})
	if n != [3]int64{2, 2, 2} || hash[0] != hash[1] || hash[0] == hash[2] {
		t.Errorf("calls %v, hashes %x", n, hash)
	}
}

func TestVirtualNodes(t *testing.T) {
	err := spmd.Run(context.Background(), local.New(5), spmd.Options{Log: t.Output(), VirtualNodes: 2},
		func(_ context.Context, w *spmd.World) error {
			if got := w.Nodes(); !slices.Equal(got, []int{0, 0, 0, 1, 1}) {
				return fmt.Errorf("nodes %v", got)
			}
			if r := w.Rank(); w.LocalRank() != r%3 || w.LocalSize() != 3-r/3 {
				return fmt.Errorf("local rank %d of %d", w.LocalRank(), w.LocalSize())
			}
			return nil
		})
	test.OK(t, err)
	if f, _ := fail(t, 2, spmd.Options{VirtualNodes: 3}, func(context.Context, *spmd.World) error {
		return nil
	}); f.Err.Error() != "virtual nodes: 3 for 2 ranks, expected 0..2" {
		t.Error(f)
	}
}

// A call that takes long is reported by name, and the job goes on.
func TestStalledCallIsReported(t *testing.T) {
	log := new(signalWriter)
	log.written = make(chan struct{})
	err := spmd.Run(context.Background(), local.New(1), spmd.Options{Log: log, StallTimeout: time.Millisecond},
		func(ctx context.Context, w *spmd.World) error {
			g, err := spmd.Launch(w, spmd.GroupSpec{Name: "env", Ranks: []int{0}}, newWorker)
			if err != nil {
				return err
			}
			_, err = spmd.Call(g, ctx, "interact", func(context.Context, *worker) (int, error) {
				<-log.written
				return 0, nil
			}).Wait(ctx)
			return err
		})
	test.OK(t, err)
	if !strings.Contains(log.text, "env.interact runs for more than 1ms") {
		t.Errorf("logged %q", log.text)
	}
}

type signalWriter struct {
	text    string
	written chan struct{}
}

func (s *signalWriter) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "interact") {
		s.text = string(p)
		close(s.written)
	}
	return len(p), nil
}
