package timeline

import (
	"cmp"
	"slices"

	"github.com/rlinf/rlinf/internal/trace"
)

// A QueueStats describes the number of items in a channel during a window: puts minus gets, over all keys.
type QueueStats struct {
	Channel string
	// Exact is true if the number at the start of the window is known. If not, it is chosen so that the number of items
	// of each key is 0 at its minimum.
	Exact bool
	Max   int64
	Mean  float64 // over time
}

// A change is a change of the number of items in a channel.
type change struct{ at, items int64 }

// QueuesOf returns the channels of a window, in the order of their first sites. An item is in the channel from its put
// to the end of its get.
func QueuesOf(a *trace.Attempt, w *trace.Window) (queues []QueueStats) {
	v := newIndex(a).view(w)
	var channels []string
	keys := map[string][]groupKey{} // the Get keys of each channel
	for i := range a.Workers {
		for _, s := range a.Workers[i].Sites {
			if s.Op != trace.Put && s.Op != trace.Get {
				continue
			}
			if keys[s.Name] == nil {
				channels = append(channels, s.Name)
			}
			if key := (groupKey{op: trace.Get, name: s.Name, key: s.Key}); !slices.Contains(keys[s.Name], key) {
				keys[s.Name] = append(keys[s.Name], key)
			}
		}
	}
	for _, channel := range channels {
		q := QueueStats{Channel: channel, Exact: true}
		var all []change
		for _, key := range keys[channel] {
			some, exact := v.changes(key)
			all, q.Exact = append(all, some...), q.Exact && exact
		}
		if len(all) > 0 {
			q.follow(all, v.start, v.end)
			queues = append(queues, q)
		}
	}
	return queues
}

// changes returns the changes of the number of items under a key. The earliest change is the number at the start of the
// window. exact reports whether this number is known.
func (v *view) changes(get groupKey) (all []change, exact bool) {
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
			all = append(all, change{m.At, 1})
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
			all = append(all, change{s.End, -1})
		}
		exact = exact && len(of) > 0
	}
	if len(all) == 0 {
		return nil, true
	}
	sortChanges(all)
	if !exact {
		items = 0
	}
	now, least := items, items
	for _, c := range all {
		now += c.items
		least = min(least, now)
	}
	if !exact || least < 0 {
		items, exact = items-least, exact && least == 0
	}
	return append(all, change{min(v.start, all[0].at), items}), exact
}

// sortChanges sorts changes by time. A put comes before a get at the same time.
func sortChanges(all []change) {
	slices.SortFunc(all, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.items, a.items))
	})
}

// follow computes the maximum and the mean number of items from the changes.
func (q *QueueStats) follow(changes []change, start, end int64) {
	sortChanges(changes)
	items, area, last := int64(0), 0.0, start
	for _, c := range changes {
		if at := min(max(c.at, start), end); at > last {
			area += float64(items) * seconds(at-last)
			last = at
		}
		items += c.items
		q.Max = max(q.Max, items)
	}
	if end > start {
		q.Mean = (area + float64(items)*seconds(end-last)) / seconds(end-start)
	}
}
