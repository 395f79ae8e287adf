package timeline

import (
	"maps"
	"math"
	"slices"

	"github.com/rlinf/rlinf/internal/trace"
)

// Lateness counts the last arrivals of each member of a communicator, or of the runners' vote.
type Lateness struct {
	Op              trace.SiteKind // Collect or Vote
	Component, Name string
	Operations      int     // operations in which all members took part
	Chance          float64 // expected LateMember.Share if all members were last equally often
	// Unclear is the number of operations whose last member is unknown, because the clocks of nodes are not exact.
	// These operations do not count in Members.
	Unclear int
	Members []LateMember // in the order of workers
}

// A LateMember has the last arrivals of a member of a communicator.
type LateMember struct {
	Worker int
	Last   int     // number of operations at which the member arrived last
	Share  float64 // Last as a share of the operations with a clear order
	Delay  float64 // seconds since the second last arrival, summed over the operations in Last
}

// LastArrivals returns the Lateness of each communicator and of the votes, in the order of their first workers. An
// operation counts only if the window has it for every member with a track. Communicators of one member are left out.
func LastArrivals(a *trace.Attempt) (all []Lateness) {
	x := newIndex(a)
	var views []*view
	for i := range a.Windows {
		views = append(views, x.view(&a.Windows[i]))
	}
	for _, key := range x.keys {
		spots := x.groups[key]
		if key.op != trace.Collect && key.op != trace.Vote || len(spots) < 2 {
			continue
		}
		l, late := Lateness{Op: key.op, Component: key.component, Name: key.name}, map[int]*LateMember{}
		for _, v := range views {
			v.arrivals(&l, spots, late)
		}
		if l.Operations == 0 {
			continue
		}
		for _, worker := range slices.Sorted(maps.Keys(late)) {
			m := late[worker]
			if clear := l.Operations - l.Unclear; clear > 0 {
				m.Share = float64(m.Last) / float64(clear)
			}
			l.Members = append(l.Members, *m)
		}
		l.Chance = 1 / float64(len(l.Members))
		all = append(all, l)
	}
	return all
}

// arrivals adds the operations of a communicator in a window to l. It adds the last arrivals to the map members, whose
// keys are workers.
func (v *view) arrivals(l *Lateness, spots []spot, members map[int]*LateMember) {
	type operation struct {
		members      int
		last, second int64 // times of the last and the second last arrival
		by, before   int   // workers of these arrivals
	}
	var operations []operation // operation i has the number first+i
	first, most := int64(math.MaxInt64), 0
	var here []spot
	for _, at := range spots {
		if of := v.spansOf(at.worker, at.site); len(of) > 0 {
			here = append(here, at)
			first, most = min(first, v.tracks[at.worker].Spans[of[0]].N), max(most, len(of))
		}
	}
	if len(here) < 2 {
		return
	}
	for _, at := range here {
		if members[at.worker] == nil {
			members[at.worker] = &LateMember{Worker: at.worker}
		}
		spans := v.tracks[at.worker].Spans
		for _, i := range v.spansOf(at.worker, at.site) {
			n := spans[i].N - first
			if n < 0 || n > int64(2*most) {
				continue // a damaged number: another member cannot have this operation
			}
			for int64(len(operations)) <= n {
				operations = append(operations, operation{last: math.MinInt64, second: math.MinInt64, before: none})
			}
			o := &operations[n]
			switch start := spans[i].Start; {
			case o.members == 0 || start > o.last:
				o.second, o.before = o.last, o.by
				o.last, o.by = start, at.worker
			case start > o.second:
				o.second, o.before = start, at.worker
			}
			o.members++
		}
	}
	for _, o := range operations {
		if o.members < len(here) {
			continue
		}
		l.Operations++
		gap := o.last - o.second
		if gap == 0 || gap <= 2*v.window.Bound && v.Workers[o.by].Node != v.Workers[o.before].Node {
			l.Unclear++
			continue
		}
		members[o.by].Last++
		members[o.by].Delay += seconds(gap)
	}
}
