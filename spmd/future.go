package spmd

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A Result is the return value of one member's call.
type Result[R any] struct {
	Member   int
	Value    R
	Duration time.Duration // duration of the call, without its time in the queue
}

// A Future is the outcome of a call that may still be running. Any number of goroutines may wait
// for it.
type Future[R any] struct {
	w    *World
	what string
	span Span          // records how long main waits for the call
	done chan struct{} // nil if no member is on this rank

	mu      sync.Mutex
	left    int
	results []Result[R]
	err     error
}

func newFuture[R any](w *World, what string, n int) *Future[R] {
	f := &Future[R]{w: w, what: what, left: n}
	if n > 0 {
		f.done = make(chan struct{})
		f.results = make([]Result[R], n)
	}
	return f
}

// set stores the outcome of call i.
func (f *Future[R]) set(i int, r Result[R], err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.results[i] = r
	if err != nil && f.err == nil {
		f.err = err
	}
	if f.left--; f.left == 0 {
		close(f.done)
	}
}

// Done reports, without waiting, whether the call has ended on all members of this rank.
func (f *Future[R]) Done() bool {
	if f.done == nil {
		return true
	}
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// Wait waits for the call and returns the results of this rank's members, in member order, or the first
// error. It returns nil if this rank has no members. If ctx ends first, Wait returns context.Cause(ctx),
// and the call continues. If the job ends first, Wait returns the job's first error.
func (f *Future[R]) Wait(ctx context.Context) ([]Result[R], error) {
	if f.done == nil {
		return nil, nil
	}
	var stalled <-chan time.Time
	if d := f.w.job.opts.StallTimeout; d > 0 && !f.Done() {
		t := time.NewTimer(d)
		defer t.Stop()
		stalled = t.C
	}
	if !f.Done() {
		f.span.Begin()
		defer f.span.End(0, 0)
	}
	for {
		select {
		case <-f.done:
			return f.results, f.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-f.w.job.end.Done():
			return nil, context.Cause(f.w.job.end)
		case <-stalled:
			fmt.Fprintf(f.w.job.opts.Log, "rank %d host %s: %s runs for more than %v\n", f.w.Rank(), f.w.Host(), f.what,
				f.w.job.opts.StallTimeout)
			stalled = nil
		}
	}
}
