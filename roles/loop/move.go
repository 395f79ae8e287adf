package loop

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/roles/state"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Places are the ranks of each component's members.
type Places map[string][]int

// Moves decides when and where the members of a run move. Every rank must call each method except Due.
type Moves interface {
	// Due reports whether a move is due. Any goroutine of rank 0 may call it.
	Due() bool
	// Next returns the places of the move that is due. It returns nil if the move is refused or no longer wanted.
	Next(ctx context.Context) (Places, error)
	// Accept reports whether the move takes place. For each rank, received has the number of bytes that it will receive
	// from other ranks, and copied has the number that it will copy in its memory. err is an error of this rank. If
	// Accept refuses the move, the run goes on without it. After Accept the move cannot be refused: an error ends the
	// job.
	Accept(ctx context.Context, received, copied []float64, err error) (bool, error)
}

// A Worker is a worker with a state. In a move, a new worker replaces it in the new world, on any rank.
type Worker interface {
	Member() *spmd.Member
	// State lists the worker's state, without a copy.
	State(state.Purpose) []state.Part
	// Part returns what a new worker on the same rank takes over by calling loop.Part. It may return nil. A part may
	// use memory of Holdings.Alloc, but no other memory of the world. If the move is refused later, the old worker goes
	// on.
	Part() any
	// Retire stops everything that the worker runs, except what belongs to its part. The new worker takes over the
	// part, which may be nil.
	Retire(part any) error
}

// An OwnWorker is a worker of a program's own component that can go on in another world: see Worker.
type OwnWorker interface {
	Member() *spmd.Member
	Part() any
	// Pack returns the state that a new worker without a part needs. It does not copy the state.
	Pack() (tensor.Dict, error)
	// Unpack loads the state from Pack into a new worker.
	Unpack(tensor.Dict) error
	Retire(part any) error
}

// A carried turns an OwnWorker into a Worker.
type carried struct{ packer }

type packer = OwnWorker

// State returns what Pack returns.
func (c carried) State(state.Purpose) []state.Part {
	return []state.Part{state.Tensors{Save: c.Pack, Load: c.Unpack}.Part()}
}

// Carry makes the workers of one of the program's own components keep their state in a move. members has the workers on
// this rank. All ranks must call Carry with the same components.
func (l *Loop) Carry(component string, members ...OwnWorker) {
	l.ownComponents = append(l.ownComponents, component)
	for _, m := range members {
		l.ownWorkers = append(l.ownWorkers, carried{m})
	}
}

// A departure is a worker of this rank during a move.
type departure struct {
	Worker
	to   int        // the rank of the new worker
	part any        // see Worker.Part; nil if there is none
	pack state.Pack // the worker's state; nil if there is a part
}

// workers returns all workers of this rank that move.
func (l *Loop) workers() []Worker { return slices.Concat(l.leader.Workers(), l.ownWorkers) }

// move moves the members to other ranks. If moved is true, the program must return spmd.Again. moved is false if
// Moves.Next returns no places, or Moves.Accept refuses them.
func (l *Loop) move(ctx context.Context) (moved bool, err error) {
	if err := l.leader.Quiesce(ctx); err != nil {
		return false, err
	}
	places, err := l.with.Moves.Next(ctx)
	if err != nil || places == nil {
		return false, err
	}
	if err := l.leader.Settle(ctx); err != nil {
		return false, err
	}
	l.leader.Describe(&l.report) // adds results since the last report to the next report
	all, bytes, wrong := l.pack(places)
	if err := l.with.Saver.group.Sum64(ctx, bytes); err != nil {
		return false, err
	}
	ranks := l.world.Size()
	if ok, err := l.with.Moves.Accept(ctx, bytes[:ranks], bytes[ranks:], wrong); err != nil || !ok {
		return false, err
	}
	next, err := l.exchange(ctx, all, places)
	if err != nil {
		return false, fmt.Errorf("move: %w", err)
	}
	for _, m := range all {
		if err := m.Retire(m.part); err != nil {
			return false, err
		}
	}
	next.episodes, next.evals = l.report.Episodes, l.report.Evals
	l.with.Holdings.next, l.with.Holdings.step = next, l.step
	return true, nil
}

// pack returns the members of this rank, with their new ranks from places. It packs the states of members without a
// part. The first half of bytes has the number of bytes that this rank will send to each rank. In the second half, the
// element of this rank has the number of bytes that it will copy.
func (l *Loop) pack(places Places) (all []departure, bytes []float64, err error) {
	bytes = make([]float64, 2*l.world.Size())
	for _, m := range l.workers() {
		is := m.Member()
		out := departure{Worker: m, to: places[is.Group()][is.Index()]}
		if out.to == l.world.Rank() {
			out.part = m.Part()
		}
		if out.part == nil {
			if out.pack, err = state.NewPack(m.State(l.purpose(true))); err != nil {
				return all, bytes, fmt.Errorf("%s %d cannot move: %w", is.Group(), is.Index(), err)
			}
			at := out.to
			if at == l.world.Rank() {
				at += l.world.Size()
			}
			bytes[at] += float64(out.pack.Bytes())
		}
		all = append(all, out)
	}
	return all, bytes, nil
}

// exchange sends the states of members to their new ranks, and returns the estate of this rank in the next world.
func (l *Loop) exchange(ctx context.Context, all []departure, places Places) (next estate, err error) {
	ends, err := l.world.NewComm(l.world.Ranks(), "moves")
	if err != nil {
		return next, err
	}
	next = newEstate()
	here := l.world.Rank()
	mine := map[holder]*departure{}
	for i := range all {
		mine[holderOf(all[i].Member())] = &all[i]
	}
	place, carried := l.job.Placement, slices.Concat(l.leader.Components(), l.ownComponents)
	for _, component := range place.Components() { // all ranks go through the members in the same order
		if !slices.Contains(carried, component) { // workers of this component start without a state
			continue
		}
		for m, from := range place.Ranks(component) {
			h, dest := holder{component, m}, places[component][m]
			own := mine[h]
			switch {
			case own != nil && own.part != nil:
				next.parts[h], next.memory[h] = own.part, l.with.Holdings.present.memory[h]
				l.world.Keep(next.memory[h]...)
			case own != nil && dest == here:
				next.packs[h] = own.pack.Clone()
			case own != nil:
				err = own.pack.Send(ctx, ends[0], dest)
			case dest == here && from != here:
				next.packs[h], err = state.Receive(ctx, ends[0], from)
			}
			if err != nil {
				return next, fmt.Errorf("%s %d: %w", component, m, err)
			}
		}
	}
	return next, nil
}

// takeOver loads the states from the previous world into the members.
func (l *Loop) takeOver() error {
	own := l.with.Holdings
	l.step = own.step
	l.report.Episodes, l.report.Evals = own.present.episodes, own.present.evals
	for _, m := range l.workers() {
		h := holderOf(m.Member())
		if pack, ok := own.present.packs[h]; ok {
			if err := pack.Take(m.State(l.purpose(true))); err != nil {
				return fmt.Errorf("%s %d: %w", h.component, h.index, err)
			}
			delete(own.present.packs, h)
		}
	}
	return nil
}
