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

// compareCauses orders causes as Causes does. Causes that a newer program wrote follow, sorted by name.
func compareCauses(a, b trace.Cause) int {
	place := func(c trace.Cause) int {
		if i := slices.Index(causes[:], c); i >= 0 {
			return i
		}
		return len(causes)
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
}

// A WaitTable says how workers spent their time.
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

// RankTimes is the time of all workers of a rank together. It leaves out the time in which the runner waits for the
// other workers of the rank.
type RankTimes struct {
	Rank  int
	Times Times
}

// Waits sums the time of each worker by cause, over all iterations. The time of a collective operation counts as a
// wait.
func Waits(a *trace.Attempt) *WaitTable {
	times, iterations := siteTimes(a)
	t := &WaitTable{Iterations: iterations, Workers: make([]Times, len(a.Workers))}
	components, ranks := map[string]int{}, map[int]int{}
	for i := range a.Workers {
		w := &a.Workers[i]
		for site, ns := range times[i] {
			t.Workers[i] = t.Workers[i].plus(w.Sites[site].Cause, seconds(ns))
		}
		component := entry(&t.Components, components, w.Component, ComponentTimes{Component: w.Component})
		rank := entry(&t.Ranks, ranks, w.Rank, RankTimes{Rank: w.Rank})
		component.Workers++
		for _, of := range t.Workers[i] {
			component.Times = component.Times.plus(of.Cause, of.Seconds)
			if of.Cause != trace.Calling {
				rank.Times = rank.Times.plus(of.Cause, of.Seconds)
			}
		}
	}
	slices.SortStableFunc(t.Ranks, func(a, b RankTimes) int { return cmp.Compare(a.Rank, b.Rank) })
	return t
}

// siteTimes returns the nanoseconds that each worker spent at each of its sites, and the number of iterations with
// sums.
func siteTimes(a *trace.Attempt) (times [][]int64, iterations int) {
	for i := range a.Workers {
		times = append(times, make([]int64, len(a.Workers[i].Sites)))
	}
	seen := map[int64]bool{}
	for _, s := range a.Sums {
		if s.Worker < 0 || s.Worker >= len(a.Workers) {
			continue
		}
		seen[s.Iteration] = true
		for site := range min(len(s.Times), len(times[s.Worker])) {
			times[s.Worker][site] += s.Times[site]
		}
	}
	return times, len(seen)
}
