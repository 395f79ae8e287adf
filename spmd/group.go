package spmd

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A GroupSpec names a group and places its members.
type GroupSpec struct {
	Name  string // name of the component and of the group's message space (Transport.NewGroup)
	Ranks []int  // world rank of each member; a rank may be listed more than once
	// Comms are the purposes of communicators: gradients, metrics, … Launch makes one communicator over all members for
	// each purpose, because a communicator belongs to one goroutine at a time.
	Comms []string
	// Axes arrange the members as the points of a mesh. The first axis is the outermost: members with consecutive
	// numbers are neighbours on the last axis. Each purpose of Comms then also has a communicator along each axis
	// (Member.AxisComm). If Axes is nil, there is no mesh.
	Axes []Axis
	// Direct names groups whose members exchange direct messages (Member.SendTo) with the members of this group. Each
	// name belongs to a group launched earlier, or to this group itself.
	Direct []string
}

// A Group is the workers of a component. Every rank has the same Group, but each rank holds only
// the workers of its own members.
type Group[W any] struct {
	w        *World
	spec     GroupSpec
	here     []localMember[W] // members of this rank, in order
	selected []int            // members that calls run on; nil means all
}

// A localMember is a member that lives on this rank.
type localMember[W any] struct {
	member *Member
	worker *worker
	impl   W
}

// Launch makes the group that spec describes. It is collective: every rank calls it, in the same order. Launch
// calls newWorker for each member on this rank, on the member's goroutine. The calls for all members run
// concurrently, so newWorker may use the communicators. An error of newWorker on any rank ends the job.
func Launch[W any](w *World, spec GroupSpec, newWorker func(m *Member) (W, error)) (*Group[W], error) {
	members, err := w.enroll(spec)
	if err != nil {
		return nil, fmt.Errorf("launch group %q: %w", spec.Name, err)
	}
	g := &Group[W]{w: w, spec: spec, here: make([]localMember[W], len(members))}
	made := newFuture[struct{}](w, spec.Name+".new", len(members))
	for i, m := range members {
		g.here[i] = localMember[W]{member: m, worker: w.startWorker(spec.Name, m.index)}
		g.here[i].worker.submit(func() error {
			impl, err := newWorker(m)
			if err != nil {
				err = fmt.Errorf("new: %w", err)
				g.here[i].worker.report(err) // reported here, before a waiting goroutine reports the same error
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

// Spec returns the spec that the group was launched with.
func (g *Group[W]) Spec() GroupSpec { return g.spec }

// Here returns the workers of this rank, in member order. The caller may use a worker only while the worker
// runs no call.
func (g *Group[W]) Here() []W {
	ws := make([]W, len(g.here))
	for i := range g.here {
		ws[i] = g.here[i].impl
	}
	return ws
}

// ExecuteOn returns a view of g whose calls run on these members only. It panics if a member is not in the group.
func (g *Group[W]) ExecuteOn(members ...int) *Group[W] {
	for _, m := range members {
		if m < 0 || m >= g.Size() {
			panic(fmt.Sprintf("spmd: execute on member %d of group %q, which has %d", m, g.spec.Name, g.Size()))
		}
	}
	v := *g
	v.selected = slices.Clone(members)
	if v.selected == nil {
		v.selected = []int{}
	}
	return &v
}

func (g *Group[W]) selects(member int) bool {
	return g.selected == nil || slices.Contains(g.selected, member)
}

// Call runs fn for every member of g on this rank, on the member's goroutine, after the member's earlier calls. It
// returns at once. Every rank must make the same calls in the same order. On a rank without members the Future is done,
// and has no results. The argument name identifies the call in error messages. An error of fn ends the job.
func Call[W, R any](g *Group[W], ctx context.Context, name string,
	fn func(ctx context.Context, w W) (R, error)) *Future[R] {
	g.w.note("call", g.spec.Name+"."+name, g.selected)
	n := 0
	for i := range g.here {
		if g.selects(g.here[i].member.index) {
			n++
		}
	}
	f := newFuture[R](g.w, g.spec.Name+"."+name, n)
	f.span = NewSpan(g.w.recorder, Site{Op: OpAwait, Name: name, Peer: g.spec.Name})
	slot := 0
	for i := range g.here {
		l := &g.here[i]
		if !g.selects(l.member.index) {
			continue
		}
		at := slot
		slot++
		span := NewSpan(l.member.recorder, Site{Op: OpCall, Name: name})
		l.worker.submit(func() error {
			start := time.Now()
			span.Begin()
			v, err := fn(ctx, l.impl)
			span.End(0, 0)
			if err != nil {
				err = fmt.Errorf("%s: %w", name, err)
				l.worker.report(err) // reported here, before a waiting goroutine reports the same error
			}
			f.set(at, Result[R]{Member: l.member.index, Value: v, Duration: time.Since(start)}, err)
			return err
		})
	}
	return f
}
