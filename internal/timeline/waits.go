package timeline

import (
	"cmp"
	"slices"

	"github.com/rlinf/rlinf/internal/trace"
)

// causes has all causes, in the order of results.
var causes = [...]trace.Cause{trace.Working, trace.Other, trace.Saving, trace.Observation, trace.Action,
	trace.Trajectory, trace.Reward, trace.Gradient, trace.Weights, trace.NoRoom, trace.Message, trace.Voting,
	trace.Calling, trace.Idling, trace.Unrecorded}

// Causes returns all causes in the order in which Times has them: first useful time, then waits.
func Causes() []trace.Cause { return slices.Clone(causes[:]) }

// Times is a sum of time by cause, in the order of Causes. Causes without time are left out.
type Times []Time

// A Time is the time for one cause.
type Time struct {
	Cause   trace.Cause
	Seconds float64
}

// Of returns the time for a cause, in seconds.
func (t Times) Of(c trace.Cause) float64 {
	for _, of := range t {
		if of.Cause == c {
			return of.Seconds
		}
	}
	return 0
}

// Total returns the time for all causes, in seconds.
func (t Times) Total() (all float64) {
	for _, of := range t {
		all += of.Seconds
	}
	return all
}

// Waited returns the time of waits, in seconds.
func (t Times) Waited() (all float64) {
	for _, of := range t {
		if of.Cause.IsWait() {
			all += of.Seconds
		}
	}
	return all
}

// plus adds time for a cause.
func (t Times) plus(c trace.Cause, s float64) Times {
	if s == 0 {
		return t
	}
	i, found := slices.BinarySearchFunc(t, c, func(of Time, c trace.Cause) int { return compareCauses(of.Cause, c) })
	if !found {
		return slices.Insert(t, i, Time{c, s})
	}
	t[i].Seconds += s
	return t
}

// compareCauses orders causes as Causes does. Other causes follow by name.
func compareCauses(a, b trace.Cause) int {
	place := func(c trace.Cause) int {
		if i := slices.Index(causes[:], c); i >= 0 {
			return i
		}
		return len(causes)
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
}

// A WaitTable says for what workers spent their time in some iterations.
type WaitTable struct {
	Iterations int              // iterations with sums
	Workers    []Times          // of each worker
	Components []ComponentTimes // in the order of their first workers
	Ranks      []RankTimes      // in the order of ranks
}

// ComponentTimes is the time of all members of a component together.
type ComponentTimes struct {
	Component string
	Workers   int
	Times     Times
}

// RankTimes is the time of all workers of a rank together. The time in which the runner waits for these workers is
// left out.
type RankTimes struct {
	Rank    int
	Workers int // without the runner
	Times   Times
}

// Waits sums the time of each worker in the iterations from first to last, both included, by cause. The time of a
// collective operation counts as a wait; see Collectives for its parts.
func Waits(a *trace.Attempt, first, last int64) *WaitTable {
	t := &WaitTable{Workers: make([]Times, len(a.Workers))}
	sites := make([][]int64, len(a.Workers))
	for i := range a.Workers {
		sites[i] = make([]int64, len(a.Workers[i].Sites))
	}
	seen := map[int64]bool{}
	for i := range a.Sums {
		s := &a.Sums[i]
		if s.Iteration < first || s.Iteration > last || s.Worker < 0 || s.Worker >= len(a.Workers) {
			continue
		}
		seen[s.Iteration] = true
		for site := range min(len(s.Times), len(sites[s.Worker])) {
			sites[s.Worker][site] += s.Times[site]
		}
	}
	t.Iterations = len(seen)
	for i := range a.Workers {
		w := &a.Workers[i]
		for site, ns := range sites[i] {
			t.Workers[i] = t.Workers[i].plus(w.Sites[site].Cause, seconds(ns))
		}
		t.add(w, t.Workers[i])
	}
	slices.SortStableFunc(t.Ranks, func(a, b RankTimes) int { return cmp.Compare(a.Rank, b.Rank) })
	return t
}

// add adds the times of a worker to those of its component and of its rank.
func (t *WaitTable) add(w *trace.Worker, times Times) {
	c := slices.IndexFunc(t.Components, func(c ComponentTimes) bool { return c.Component == w.Component })
	if c < 0 {
		c, t.Components = len(t.Components), append(t.Components, ComponentTimes{Component: w.Component})
	}
	r := len(t.Ranks) - 1 // workers are in the order of ranks
	if r < 0 || t.Ranks[r].Rank != w.Rank {
		r = slices.IndexFunc(t.Ranks, func(r RankTimes) bool { return r.Rank == w.Rank })
	}
	if r < 0 {
		r, t.Ranks = len(t.Ranks), append(t.Ranks, RankTimes{Rank: w.Rank})
	}
	t.Components[c].Workers++
	if w.Component != trace.Runner {
		t.Ranks[r].Workers++
	}
	for _, of := range times {
		t.Components[c].Times = t.Components[c].Times.plus(of.Cause, of.Seconds)
		if of.Cause != trace.Calling {
			t.Ranks[r].Times = t.Ranks[r].Times.plus(of.Cause, of.Seconds)
		}
	}
}
