package timeline

import (
	"math"
	"slices"

	"github.com/rlinf/rlinf/internal/trace"
)

// Lateness says which members of a communicator, or of the runners' vote, arrived last.
type Lateness struct {
	Op              trace.Op // Collect or Vote
	Component, Name string
	Operations      int     // in which all members took part
	Chance          float64 // share of operations in which each member would be last by chance: 1/P
	// Unclear is the number of operations that the clocks of the nodes cannot order. Members leave them out.
	Unclear int
	Members []LateMember // in the order of workers
}

// A LateMember is a member of a communicator.
type LateMember struct {
	Worker int
	Last   int     // operations to which it came last
	Share  float64 // of the operations with a clear order
	Delay  float64 // from the last but one arrival to its own, in seconds, over the operations to which it came last
}

// LastArrivals returns who was last at the collective operations and votes of some windows, in the order of first
// workers. An operation counts if all members that have tracks have it in the window. A communicator of one member is
// left out.
func LastArrivals(a *trace.Attempt, windows []trace.Window) []Lateness {
	x := newIndex(a)
	keys, all := x.communicators(), []Lateness(nil)
	late := make([]map[int]*LateMember, len(keys))
	for i, key := range keys {
		all = append(all, Lateness{Op: key.op, Component: key.component, Name: key.name})
		late[i] = map[int]*LateMember{}
	}
	for w := range windows {
		v := x.view(&windows[w])
		for i, key := range keys {
			v.arrivals(&all[i], x.groups[key], late[i])
		}
	}
	result := all[:0]
	for i := range all {
		l := &all[i]
		if l.Operations == 0 {
			continue
		}
		for _, m := range late[i] {
			if clear := l.Operations - l.Unclear; clear > 0 {
				m.Share = float64(m.Last) / float64(clear)
			}
			l.Members = append(l.Members, *m)
		}
		slices.SortFunc(l.Members, func(a, b LateMember) int { return a.Worker - b.Worker })
		l.Chance = 1 / float64(len(l.Members))
		result = append(result, *l)
	}
	return result
}

// communicators returns the keys of the groups whose members arrive, in the order of first workers.
func (x *index) communicators() (keys []groupKey) {
	seen := map[groupKey]bool{}
	for i := range x.Workers {
		w := &x.Workers[i]
		for s := range w.Sites {
			key, _ := groupOf(w, &w.Sites[s])
			if (key.op == trace.Collect || key.op == trace.Vote) && !seen[key] && len(x.groups[key]) > 1 {
				seen[key] = true
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// arrivals counts the operations of a communicator in a window.
func (v *view) arrivals(l *Lateness, spots []spot, late map[int]*LateMember) {
	type operation struct {
		members      int
		last, second int64 // times of the last arrival and of the one before
		by, before   int   // these members
	}
	var operations []operation // from the first one
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
		if late[at.worker] == nil {
			late[at.worker] = &LateMember{Worker: at.worker}
		}
		spans := v.tracks[at.worker].Spans
		for _, i := range v.spansOf(at.worker, at.site) {
			n := spans[i].N - first
			if n < 0 || n > int64(2*most) {
				continue // another member cannot have it
			}
			for int64(len(operations)) <= n {
				operations = append(operations, operation{last: math.MinInt64, second: math.MinInt64, before: none})
			}
			switch o := &operations[n]; {
			case o.members == 0 || spans[i].Start > o.last:
				o.second, o.before = o.last, o.by
				o.last, o.by = spans[i].Start, at.worker
				o.members++
			default:
				if spans[i].Start > o.second {
					o.second, o.before = spans[i].Start, at.worker
				}
				o.members++
			}
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
		late[o.by].Last++
		late[o.by].Delay += seconds(gap)
	}
}
