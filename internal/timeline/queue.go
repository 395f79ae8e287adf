package timeline

import (
	"cmp"
	"slices"

	"github.com/rlinf/rlinf/internal/trace"
)

// A Queue has the number of items in a channel over a window, all keys together: puts minus gets.
type Queue struct {
	Channel string
	// Exact reports whether the number at the beginning is known. Otherwise the least number of each key counts as 0.
	Exact bool
	Max   int64
	Mean  float64 // over time
	Depth []Depth // each change, in the order of time
}

// A Depth is the number of items in a channel from a time on.
type Depth struct {
	At    int64 // in nanoseconds
	Items int64
}

// Queues returns the channels of a window, in the order of their first sites. An item is in the channel from its put
// to the end of its get.
func Queues(a *trace.Attempt, w *trace.Window) []Queue {
	v := newIndex(a).view(w)
	var queues []Queue
	var keys []groupKey // a Get of each key; the channels of the queues are in the same order
	at, seen := map[string]int{}, map[groupKey]bool{}
	for i := range a.Workers {
		for _, s := range a.Workers[i].Sites {
			if s.Op != trace.Put && s.Op != trace.Get {
				continue
			}
			queues = grow(queues, at, s.Name, Queue{Channel: s.Name, Exact: true})
			if key := (groupKey{op: trace.Get, name: s.Name, key: s.Key}); !seen[key] {
				seen[key] = true
				keys = append(keys, key)
			}
		}
	}
	changes := make([][]Depth, len(queues)) // Items is the change
	for _, key := range keys {
		q := at[key.name]
		events, exact := v.changes(key)
		queues[q].Exact = queues[q].Exact && exact
		changes[q] = append(changes[q], events...)
	}
	for i := range queues {
		queues[i].follow(changes[i], v.start, v.end)
	}
	return slices.DeleteFunc(queues, func(q Queue) bool { return len(q.Depth) == 0 })
}

// changes returns the changes of the number of items under a key, in the order of time. The first one is the number at
// the start of the window. exact reports whether that number is known.
func (v *view) changes(get groupKey) (events []Depth, exact bool) {
	put := get
	put.op = trace.Put
	items, exact := int64(0), true
	for _, at := range v.groups[put] {
		of := v.marksOf(at.worker, at.site)
		for k, i := range of {
			m := &v.tracks[at.worker].Marks[i]
			if k == 0 {
				items += m.N
			}
			events = append(events, Depth{m.At, 1})
		}
		exact = exact && len(of) > 0
	}
	for _, at := range v.groups[get] {
		of := v.spansOf(at.worker, at.site)
		for k, i := range of {
			s := &v.tracks[at.worker].Spans[i]
			if k == 0 {
				items -= s.N
			}
			events = append(events, Depth{s.End, -1})
		}
		exact = exact && len(of) > 0
	}
	if len(events) == 0 {
		return nil, true
	}
	sortChanges(events)
	if !exact {
		items = 0
	}
	depth, least := items, items
	for _, e := range events {
		depth += e.Items
		least = min(least, depth)
	}
	if !exact || least < 0 {
		items, exact = items-least, exact && least == 0
	}
	return slices.Insert(events, 0, Depth{min(v.start, events[0].At), items}), exact
}

// sortChanges sorts changes by time. At the same time a put comes before a get.
func sortChanges(changes []Depth) {
	slices.SortFunc(changes, func(a, b Depth) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(b.Items, a.Items))
	})
}

// follow computes the numbers of items from their changes.
func (q *Queue) follow(changes []Depth, start, end int64) {
	sortChanges(changes)
	items, area, last := int64(0), 0.0, start
	for _, c := range changes {
		if at := min(max(c.At, start), end); at > last {
			area += float64(items) * seconds(at-last)
			last = at
		}
		items += c.Items
		if n := len(q.Depth); n > 0 && q.Depth[n-1].At == c.At {
			q.Depth[n-1].Items = items
		} else {
			q.Depth = append(q.Depth, Depth{c.At, items})
		}
		q.Max = max(q.Max, items)
	}
	if end > start {
		q.Mean = (area + float64(items)*seconds(end-last)) / seconds(end-start)
	}
}
