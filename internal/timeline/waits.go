package timeline

import (
	"cmp"
	"maps"
	"slices"

	"github.com/rlinf/rlinf/internal/trace"
)

// causes has all causes, in the order of tables.
var causes = [...]trace.Cause{trace.Working, trace.Other, trace.Saving, trace.Observation, trace.Action,
	trace.Trajectory, trace.Reward, trace.Gradient, trace.Weights, trace.NoRoom, trace.Message, trace.Voting,
	trace.Calling, trace.Idling, trace.Unrecorded}

// Causes returns all causes in the order of tables: first useful time, then waits.
func Causes() []trace.Cause { return slices.Clone(causes[:]) }

// Times has the seconds that were spent on each cause.
type Times map[trace.Cause]float64

// Total returns the sum over all causes, in seconds.
func (t Times) Total() (all float64) {
	for _, c := range slices.Sorted(maps.Keys(t)) { // the rounding of the sum depends on the order
		all += t[c]
	}
	return all
}

// Waited returns the sum over all waits, in seconds.
func (t Times) Waited() (all float64) {
	for _, c := range slices.Sorted(maps.Keys(t)) {
		if c.IsWait() {
			all += t[c]
		}
	}
	return all
}

// A WaitTable has the times of workers by cause.
type WaitTable struct {
	Iterations int              // iterations with sums
	Workers    []Times          // times of each worker
	Components []ComponentTimes // in the order of their first workers
	Ranks      []RankTotal      // in the order of ranks
}

// ComponentTimes is the time of all members of a component together.
type ComponentTimes struct {
	Component string
	Workers   int
	Times     Times
}

// RankTotal is the time of all workers of a rank together. It leaves out the time in which the runner waits for the
// other workers of the rank.
type RankTotal struct {
	Rank  int
	Times Times
}

// Waits sums the time of each worker by cause, over all iterations. The time of a collective operation counts as a
// wait. If a rollout worker steps environments itself, that is work of the env worker, and the rollout worker waits for
// observations.
func Waits(a *trace.Attempt) *WaitTable {
	times, iterations := siteTimes(a)
	t := &WaitTable{Iterations: iterations}
	lent := loans(a, times)
	components, ranks := map[string]int{}, map[int]int{}
	for i := range a.Workers {
		w, of := &a.Workers[i], Times{}
		for site, ns := range times[i] {
			of[w.Sites[site].Cause] += seconds(ns)
		}
		t.Workers = append(t.Workers, of)
		all := entry(&t.Components, components, w.Component, ComponentTimes{Component: w.Component, Times: Times{}})
		rank := entry(&t.Ranks, ranks, w.Rank, RankTotal{Rank: w.Rank, Times: Times{}})
		all.Workers++
		for c, s := range of {
			if c != trace.Calling {
				rank.Times[c] += s
			}
		}
		for _, l := range lent {
			switch s := seconds(l.ns); i {
			case l.by:
				of[trace.Working], of[trace.Observation] = of[trace.Working]-s, of[trace.Observation]+s
			case l.of:
				of[trace.Working], of[trace.Idling] = of[trace.Working]+s, of[trace.Idling]-s
			}
		}
		for c, s := range of {
			all.Times[c] += s
		}
	}
	slices.SortStableFunc(t.Ranks, func(a, b RankTotal) int { return cmp.Compare(a.Rank, b.Rank) })
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
