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

// Options configure Run. The zero value is ready to use.
type Options struct {
	// StallTimeout limits waits. If main waits longer for a group call, one line on Log reports the call, and the call
	// continues. Waiting for a rank whose main returned more than StallTimeout ago is an error. 0 disables the report
	// and the error. The transport detects hanging processes by itself.
	StallTimeout time.Duration
	// ExitCode returns the exit code of the job's processes for a failure; nil means 1.
	ExitCode func(error) int
	// Failing is called with the failure that ends the job, before the failure's line is written to Log. It
	// must print the stack of a panic. If Failing is nil, Run writes the stack to Log.
	Failing func(*Failure)
	// Log receives the failure's line; nil means os.Stderr.
	Log io.Writer
	// Debug fills the memory of released items with a poison byte, and reports later writes to that memory as
	// errors. It also writes each group and its ranks to Log.
	Debug bool
	// VirtualNodes divides the ranks into this many nodes, in contiguous blocks; 0 means the real
	// nodes. Shared memory still uses real nodes, so a test must not share memory between virtual nodes.
	VirtualNodes int
}

// grace limits how long Run waits, after a failure, for goroutines that ignore their context.
const grace = 10 * time.Second

// Again is the error by which main requests another world: Run ends this world and calls main in a new world.
//
//lint:ignore ST1012 it is an answer, like io.EOF
var Again = errors.New("call main again, in a new world")

// Run runs main for every rank that lives in this process, and waits for all of them and their
// goroutines. The first error or panic of main, a worker or a goroutine of World.Go ends the job.
// Run then cancels the context of all ranks, writes the failure to opts.Log, calls Transport.Abort
// and returns the error as a *Failure. After a success the transports are closed.
//
// If main returns Again, or an error that wraps Again, on every rank, Run shuts their world down and calls main with a
// new World on the same transports. Groups, channels, communicators and recorders end with their world. So does memory
// of World.Alloc, except for pieces passed to World.Keep. It is an error if main returns Again on some ranks and nil
// on others.
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
		all.Go(func() {
			for again := true; again; {
				again = false
				w := newWorld(j, t)
				protect(w.reporter("", -1), func() (err error) {
					again, err = w.run(main)
					return err
				})
				w.workers.Wait()
				w.tasks.Wait()
				for _, c := range w.channels {
					c.served.Wait()
				}
			}
		})
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

// A job is the state shared by the ranks of one process.
type job struct {
	opts   Options
	ctx    context.Context // passed to main; ends with the context of Run, or at the first failure
	cancel context.CancelCauseFunc
	// end is a context that ends only at the first failure, so that a world can still close after ctx has ended.
	end    context.Context
	kill   context.CancelCauseFunc
	abort  func(code int)
	failed chan struct{} // closed at the first failure

	mu      sync.Mutex
	failure *Failure
}

// fail records the first failure and ends the job. Later calls do nothing.
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
	fmt.Fprintln(j.opts.Log, f.Error()) // the last line, because people look there first
	j.cancel(f)
	j.kill(f)
	close(j.failed)
	j.abort(j.opts.ExitCode(f))
}
