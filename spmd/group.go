package spmd

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A GroupSpec says where the members of a group are. Placement.Group makes it, or a test by hand.
type GroupSpec struct {
	Name  string // of the component, and of the group's message space (Transport.NewGroup)
	Ranks []int  // world rank of each member; a rank may stand several times
	// Comms names the communicators over all members that Launch makes, one for each purpose
	// (gradients, metrics, …), because a communicator belongs to one goroutine at a time.
	Comms []string
	// Direct names groups that were launched before, or this one. Their members and those of this
	// group exchange direct messages (Member.SendTo).
	Direct []string
}

// A Group is the workers of a component. Its value is the same on every rank; only the members of
// this rank have workers behind it.
type Group[W any] struct {
	w     *World
	spec  GroupSpec
	here  []local[W] // members of this rank, in order
	views []int      // members that calls go to; nil: all
}

// A local is a member that lives on this rank.
type local[W any] struct {
	member *Member
	worker *worker
	impl   W
}

// Launch makes the group of spec. It is collective: every rank calls it, in the same order. On the
// ranks of its members new makes the workers, each on the goroutine that will run its calls, all at
// the same time, so new may use the communicators. The error of a new ends the job, wherever it
// happens.
func Launch[W any](w *World, spec GroupSpec, new func(m *Member) (W, error)) (*Group[W], error) {
	members, err := w.enroll(spec)
	if err != nil {
		return nil, fmt.Errorf("launch group %q: %w", spec.Name, err)
	}
	g := &Group[W]{w: w, spec: spec, here: make([]local[W], len(members))}
	made := newFuture[struct{}](w, spec.Name+".new", len(members))
	for i, m := range members {
		g.here[i] = local[W]{member: m, worker: w.startWorker(spec.Name, m.index)}
		g.here[i].worker.submit(func() error {
			impl, err := new(m)
			if err != nil {
				err = fmt.Errorf("new: %w", err)
				g.here[i].worker.report(err) // before a waiting goroutine can report what it got
			}
			g.here[i].impl = impl
			made.set(i, Result[struct{}]{Member: m.index}, err)
			return err
		})
	}
	_, err = made.Wait(w.job.ctx)
	return g, err
}

// Name returns the group's name.
func (g *Group[W]) Name() string { return g.spec.Name }

// Size returns the number of members, on all ranks.
func (g *Group[W]) Size() int { return len(g.spec.Ranks) }

// Spec returns what the group was launched with.
func (g *Group[W]) Spec() GroupSpec { return g.spec }

// Here returns the workers of this rank, in member order. They belong to their goroutines: use them
// when no call runs.
func (g *Group[W]) Here() []W {
	ws := make([]W, len(g.here))
	for i := range g.here {
		ws[i] = g.here[i].impl
	}
	return ws
}

// ExecuteOn returns a view of g: the calls made on it run on these members alone. It panics when
// one of them is not in the group.
func (g *Group[W]) ExecuteOn(members ...int) *Group[W] {
	for _, m := range members {
		if m < 0 || m >= g.Size() {
			panic(fmt.Sprintf("spmd: execute on member %d of group %q, which has %d", m, g.spec.Name, g.Size()))
		}
	}
	v := *g
	v.views = slices.Clone(members)
	if v.views == nil {
		v.views = []int{}
	}
	return &v
}

func (g *Group[W]) selects(member int) bool {
	return g.views == nil || slices.Contains(g.views, member)
}

// Call runs fn on every member of g that lives on this rank, each on its own goroutine, after the
// calls made on it before. It returns at once. It is called on every rank, in the same order: where
// g has no members the Future is done and empty. what names the call in messages. An error of fn
// ends the job.
func Call[W, R any](g *Group[W], ctx context.Context, what string,
	fn func(ctx context.Context, w W) (R, error)) *Future[R] {
	g.w.note("call", g.spec.Name+"."+what, g.views)
	n := 0
	for i := range g.here {
		if g.selects(g.here[i].member.index) {
			n++
		}
	}
	f := newFuture[R](g.w, g.spec.Name+"."+what, n)
	slot := 0
	for i := range g.here {
		l := &g.here[i]
		if !g.selects(l.member.index) {
			continue
		}
		at := slot
		slot++
		l.worker.submit(func() error {
			start := time.Now()
			v, err := fn(ctx, l.impl)
			if err != nil {
				err = fmt.Errorf("%s: %w", what, err)
				l.worker.report(err) // before a waiting goroutine can report what it got
			}
			f.set(at, Result[R]{Member: l.member.index, Value: v, Duration: time.Since(start)}, err)
			return err
		})
	}
	return f
}
