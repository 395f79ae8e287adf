package collectives

import (
	"context"
	"sync"

	"github.com/rlinf/rlinf/spmd"
)

// A Future is an operation started by Start.
type Future struct {
	g    *Group
	ctx  context.Context
	call spmd.Collective
	done bool // guarded by the queue's mu
	err  error
	next *Future
}

// A queue holds the started operations that have not run, in order. They run one at a time. Either
// a goroutine runs them and ends when the queue is empty, or a caller of Wait runs them.
type queue struct {
	mu      sync.Mutex
	idle    *sync.Cond // signalled when an operation has ended
	running bool       // an operation is running
	drains  bool       // a goroutine runs drain
	// failed is the first failure. All later operations return it, because members may be at different
	// calls.
	failed error
	first  *Future
	last   *Future
}

// Run runs c and returns when this member's part is done. After an error all later calls of the
// group return that error.
func (g *Group) Run(ctx context.Context, c spmd.Collective) error {
	g.debug.note(g.opts.Debug)
	g.span.Begin()
	err := g.runNow(ctx, c)
	g.span.End(0, 0)
	return err
}

func (g *Group) runNow(ctx context.Context, c spmd.Collective) error {
	q := &g.queue
	q.mu.Lock()
	if q.running || q.first != nil {
		q.mu.Unlock()
		f := &Future{}
		g.enqueue(f, ctx, c)
		return f.wait()
	}
	if q.failed != nil {
		q.mu.Unlock()
		return q.failed
	}
	q.running = true
	q.mu.Unlock()
	g.call = c
	err := g.execute(ctx)
	q.mu.Lock()
	q.running, q.failed = false, err
	q.mu.Unlock()
	return err
}

// Start begins c and returns at once. c completes without another call by this member. Until c completes,
// the group owns c's buffers. Operations of a group run in the order in which they were started.
func (g *Group) Start(ctx context.Context, c spmd.Collective) *Future {
	g.debug.note(g.opts.Debug)
	f := &Future{}
	g.start(f, ctx, c)
	return f
}

// start begins c, and stores its state in f, which may have been used before.
func (g *Group) start(f *Future, ctx context.Context, c spmd.Collective) {
	g.enqueue(f, ctx, c)
	q := &g.queue
	q.mu.Lock()
	first := !q.drains
	q.drains = true
	q.mu.Unlock()
	if first {
		g.host.Go("collectives", g.drain)
	}
}

func (g *Group) enqueue(f *Future, ctx context.Context, c spmd.Collective) {
	*f = Future{g: g, ctx: ctx, call: c}
	q := &g.queue
	q.mu.Lock()
	if q.first == nil {
		q.first = f
	} else {
		q.last.next = f
	}
	q.last = f
	q.mu.Unlock()
}

// drain runs the queued operations and stores their errors in their futures.
func (g *Group) drain() error {
	q := &g.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.first != nil {
		if q.running {
			q.idle.Wait()
		} else {
			g.runFirst()
		}
	}
	q.drains = false
	return nil
}

// runFirst runs the first operation of the queue. It unlocks mu while the operation runs.
func (g *Group) runFirst() {
	q := &g.queue
	f := q.first
	q.first, q.running = f.next, true
	f.next, f.err = nil, q.failed
	q.mu.Unlock()
	if f.err == nil {
		g.call = f.call
		f.err = g.execute(f.ctx)
	}
	q.mu.Lock()
	q.running, q.failed, f.done = false, f.err, true
	q.idle.Broadcast()
}

// Wait returns when the operation has ended or the context passed to Start is done. If no goroutine runs
// the queue, Wait runs it.
func (f *Future) Wait() error {
	if f.Done() {
		f.g.span.Pass(0, 0)
		return f.err
	}
	f.g.span.Begin()
	err := f.wait()
	f.g.span.End(0, 0)
	return err
}

func (f *Future) wait() error {
	q := &f.g.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	for !f.done {
		if q.running {
			q.idle.Wait()
		} else {
			f.g.runFirst()
		}
	}
	return f.err
}

// Done reports, without waiting, whether the operation has ended.
func (f *Future) Done() bool {
	q := &f.g.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	return f.done
}
