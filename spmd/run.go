package spmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// Options say how Run treats a job. The zero value is ready to use.
type Options struct {
	// StallTimeout is when Run reports a group call that still runs: on Log, once. The call goes
	// on. Waiting on a rank whose main returned that long ago is an error. 0: neither. The
	// transport detects peers whose process hangs.
	StallTimeout time.Duration
	// ExitCode gives the code with which a failure ends the processes of the job. nil: 1 for any.
	ExitCode func(error) int
	// Failing is called with the failure that ends the job, before its line is written. It takes the
	// stack of a panic. nil: the stack goes to Log.
	Failing func(*Failure)
	// Log takes the line of the failure. nil: os.Stderr.
	Log io.Writer
	// Debug poisons memory that was handed on, and reports later writes to it. It costs a pass over
	// every item that travels. It also lists on Log each group, with its ranks.
	Debug bool
	// VirtualNodes divides the ranks among this many nodes, in contiguous blocks, in place of the
	// real ones. 0: the real ones. Shared memory still knows only real nodes: a test of virtual
	// nodes must not use it between them.
	VirtualNodes int
}

// grace is how long Run waits, after a failure, for goroutines that do not look at their context.
const grace = 10 * time.Second

// Run runs main once for every rank that lives in this process, and waits for them and all they
// started. The first error that main, a worker or a goroutine of World.Go returns, or a panic
// there, ends the world. It cancels the context of all ranks, is written to opts.Log, and goes to
// Transport.Abort. Run returns it, as a *Failure. After a success the transports are closed.
func Run(ctx context.Context, ranks []Transport, opts Options, main func(ctx context.Context, w *World) error) error {
	if len(ranks) == 0 {
		return errors.New("run: no ranks in this process")
	}
	if opts.Log == nil {
		opts.Log = os.Stderr
	}
	if opts.ExitCode == nil {
		opts.ExitCode = func(error) int { return 1 }
	}
	j := &job{opts: opts, failed: make(chan struct{}), abort: ranks[0].Abort}
	j.ctx, j.cancel = context.WithCancelCause(ctx)
	defer j.cancel(nil)
	j.end, j.kill = context.WithCancelCause(context.WithoutCancel(ctx))
	defer j.kill(nil)

	var all sync.WaitGroup
	for _, t := range ranks {
		all.Add(1)
		go func() {
			defer all.Done()
			w := newWorld(j, t)
			protect(w.reporter("", -1), func() error { return w.run(main) })
			w.workers.Wait()
			w.tasks.Wait()
			for _, c := range w.channels {
				c.served.Wait()
			}
		}()
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-j.failed:
		select {
		case <-ended:
		case <-time.After(grace):
			fmt.Fprintf(opts.Log, "some goroutines still run %v after the failure\n", grace)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failure != nil {
		return j.failure
	}
	return nil
}

// A job is what the ranks of one process share.
type job struct {
	opts   Options
	ctx    context.Context // main's: ends with that of Run, and with the first failure
	cancel context.CancelCauseFunc
	// ends with the first failure alone, so that a main whose context ended can still finish in
	// order
	end    context.Context
	kill   context.CancelCauseFunc
	abort  func(code int)
	failed chan struct{} // closed by the first failure

	mu      sync.Mutex
	failure *Failure
}

// fail ends the job, unless it has already failed.
func (j *job) fail(f *Failure) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failure != nil {
		return
	}
	j.failure = f
	if j.opts.Failing != nil {
		j.opts.Failing(f)
	} else if f.Stack != nil {
		fmt.Fprintf(j.opts.Log, "%s\n", f.Stack)
	}
	fmt.Fprintln(j.opts.Log, f.Error()) // last, where people look
	j.cancel(f)
	j.kill(f)
	close(j.failed)
	j.abort(j.opts.ExitCode(f))
}
