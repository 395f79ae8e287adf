package timeline

import (
	"cmp"
	"slices"

	"github.com/rlinf/rlinf/internal/trace"
)

// none stands for a worker or a site that is not known.
const none = -1

// An index finds workers of an attempt by component, rank or group.
type index struct {
	*trace.Attempt
	byMember map[memberKey]int
	byRank   map[int][]int       // workers of a rank, without its runner
	groups   map[groupKey][]spot // the sites of a collective operation or of a channel, in the order of workers
	keys     []groupKey          // keys of groups, in the order of their first workers
}

type memberKey struct {
	component string
	member    int
}

// A groupKey identifies a group of sites on several workers. The component is set only for Collect and Vote.
type groupKey struct {
	op                   trace.SiteKind
	component, name, key string
}

// A spot is a site of a worker.
type spot struct{ worker, site int }

func newIndex(a *trace.Attempt) *index {
	x := &index{Attempt: a, byMember: map[memberKey]int{}, byRank: map[int][]int{}, groups: map[groupKey][]spot{}}
	for i := range a.Workers {
		w := &a.Workers[i]
		x.byMember[memberKey{w.Component, w.Member}] = i
		if w.Component != trace.Runner {
			x.byRank[w.Rank] = append(x.byRank[w.Rank], i)
		}
		for s := range w.Sites {
			key, ok := groupOf(w, &w.Sites[s])
			if !ok {
				continue
			}
			if x.groups[key] == nil {
				x.keys = append(x.keys, key)
			}
			x.groups[key] = append(x.groups[key], spot{i, s})
		}
	}
	return x
}

// groupOf returns the key of a site's group. ok is false for a site without a group.
func groupOf(w *trace.Lane, s *trace.Site) (key groupKey, ok bool) {
	switch s.Op {
	case trace.Collect, trace.Vote:
		return groupKey{s.Op, w.Component, s.Name, s.Key}, true
	case trace.Put, trace.Get:
		return groupKey{op: s.Op, name: s.Name, key: s.Key}, true
	case trace.Publish:
		return groupKey{op: s.Op, name: s.Name}, true
	}
	return groupKey{}, false
}

// groupSites returns all sites in the group of a worker's site.
func (x *index) groupSites(worker int, s *trace.Site) []spot {
	key, _ := groupOf(&x.Workers[worker], s)
	return x.groups[key]
}

// member returns a worker by its component and its number, or none.
func (x *index) member(component string, member int64) int {
	if i, ok := x.byMember[memberKey{component, int(member)}]; ok {
		return i
	}
	return none
}

// runner returns the runner of a rank, or none. The number of a runner is its rank.
func (x *index) runner(rank int) int { return x.member(trace.Runner, int64(rank)) }

// site returns a site of a worker. If the index is out of range, it returns a site of unrecorded time.
func (x *index) site(worker, site int) trace.Site {
	if sites := x.Workers[worker].Sites; site >= 0 && site < len(sites) {
		return sites[site]
	}
	return trace.Site{Op: trace.Skipped, Cause: trace.Unrecorded}
}

// A view is a window with its tracks by worker.
type view struct {
	*index
	window     *trace.Window
	tracks     []*trace.Track // by worker; nil if the worker has no track
	start, end int64          // start and end of the iteration on rank 0
	first      int            // the runner of rank 0; if it has no track, the worker that ends last; or none
	spans      [][][]int      // indices in Track.Spans, by worker and site; filled by spansOf
	marks      [][][]int      // indices in Track.Marks, by worker and site; filled by marksOf
}

func (x *index) view(w *trace.Window) *view {
	v := &view{index: x, window: w, tracks: make([]*trace.Track, len(x.Workers)), first: none,
		spans: make([][][]int, len(x.Workers)), marks: make([][][]int, len(x.Workers))}
	for i := range w.Tracks {
		if t := &w.Tracks[i]; t.Worker >= 0 && t.Worker < len(x.Workers) && len(t.Spans) > 0 {
			v.tracks[t.Worker] = t
		}
	}
	if r := x.runner(0); r >= 0 && v.tracks[r] != nil {
		v.first = r
		v.start, v.end = limits(v.tracks[r])
		return v
	}
	begun := false
	for i, t := range v.tracks { // without rank 0, the view lasts from the first start to the last end
		if t == nil {
			continue
		}
		start, end := limits(t)
		if !begun || start < v.start {
			v.start = start
		}
		if !begun || end > v.end {
			v.first, v.end = i, end
		}
		begun = true
	}
	return v
}

func limits(t *trace.Track) (start, end int64) {
	return t.Spans[0].Start, max(t.Spans[0].Start, t.Spans[len(t.Spans)-1].End)
}

// length returns the length of the iteration in seconds.
func (v *view) length() float64 { return seconds(v.end - v.start) }

func seconds(ns int64) float64 { return float64(ns) * 1e-9 }

// spansOf returns the indices of the spans at a site, in the order of time.
func (v *view) spansOf(worker, site int) []int {
	t := v.tracks[worker]
	if t == nil {
		return nil
	}
	if v.spans[worker] == nil {
		v.spans[worker] = bySite(t.Spans, func(s *trace.Span) int { return s.Site }, len(v.Workers[worker].Sites))
	}
	return v.spans[worker][site]
}

// marksOf returns the indices of the marks at a site, in the order of time.
func (v *view) marksOf(worker, site int) []int {
	t := v.tracks[worker]
	if t == nil {
		return nil
	}
	if v.marks[worker] == nil {
		v.marks[worker] = bySite(t.Marks, func(m *trace.Mark) int { return m.Site }, len(v.Workers[worker].Sites))
	}
	return v.marks[worker][site]
}

// bySite returns the indices of the spans or marks at each of n sites.
func bySite[E any](all []E, site func(*E) int, n int) [][]int {
	by := make([][]int, n)
	for i := range all {
		if s := site(&all[i]); s >= 0 && s < n {
			by[s] = append(by[s], i)
		}
	}
	return by
}

// nth returns the n-th span at a site since the start of the attempt, or nil.
func (v *view) nth(at spot, n int64) *trace.Span {
	of := v.spansOf(at.worker, at.site)
	if len(of) == 0 {
		return nil
	}
	spans := v.tracks[at.worker].Spans
	i, found := slices.BinarySearchFunc(of, n, func(i int, n int64) int { return cmp.Compare(spans[i].N, n) })
	if !found {
		return nil
	}
	return &spans[of[i]]
}

// lastBefore returns the index of the last span that begins before t, or none.
func lastBefore(spans []trace.Span, t int64) int {
	i, _ := slices.BinarySearchFunc(spans, t, func(s trace.Span, t int64) int { return cmp.Compare(s.Start, t) })
	if i == 0 || spans[i-1].Start >= t { // no such span, or the spans are out of order
		return none
	}
	return i - 1
}
