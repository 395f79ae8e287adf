package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/internal/timeline"
	"github.com/rlinf/rlinf/internal/trace"
)

// timelineData has the spans of the iterations that the page shows.
type timelineData struct {
	Attempts []attemptData `json:"attempts"`
	Windows  []windowData  `json:"windows"`
	Note     string        `json:"note"` // description of what is left out
}

// attemptData has the workers and sites of an attempt. Windows refer to workers and sites by index.
type attemptData struct {
	Workers []workerData `json:"workers"`
	Sites   []siteData   `json:"sites"`
}

type workerData struct {
	Rank   int    `json:"rank"`
	Name   string `json:"name"` // component and member
	Runner bool   `json:"runner,omitempty"`
}

// siteData is a site without its key. All workers of a component can share it.
type siteData struct {
	Op    trace.SiteKind `json:"op"`
	Name  string         `json:"name"`
	Peer  string         `json:"peer"`
	Cause string         `json:"cause"`
}

// windowData has the spans of an iteration, track by track. Times are in ticks since the start of the window.
type windowData struct {
	Attempt   int     `json:"attempt"`
	Iteration int64   `json:"iteration"`
	Why       string  `json:"why"`
	Tick      float64 `json:"tick"`  // seconds
	Bound     float64 `json:"bound"` // largest error of times between nodes, in seconds
	Workers   array   `json:"workers"`
	Firsts    array   `json:"firsts"` // starts of the tracks
	Counts    array   `json:"counts"` // numbers of spans in the tracks
	Sites     array   `json:"sites"`
	Lengths   array   `json:"lengths"` // lengths of the spans; a span begins where the previous span ends
	Args      array   `json:"args"`
	Path      *path   `json:"path"`
}

// A path is the critical path of an iteration, in the order of time.
type path struct {
	Workers array `json:"workers"`
	Starts  array `json:"starts"`
	Ends    array `json:"ends"`
	Kinds   array `json:"kinds"` // timeline.SegmentKind
}

// Limits of timelines on a page.
const (
	mostRanks = 64
	mostSpans = 400_000 // in all windows; a single window may have more
	leastTick = 100     // nanoseconds
)

// reasons describe why the spans of an iteration were kept.
var reasons = map[trace.Reason]string{trace.First: "one of the first", trace.Regular: "one in 50",
	trace.Slowest: "the slowest of 100", trace.Last: "one of the last", trace.All: "all are kept"}

// timelines packs the windows of all attempts. It leaves out windows if there is no room for all of them.
func (r *Run) timelines(p *packer) *timelineData {
	if r.Trace == nil {
		return nil
	}
	d := new(timelineData)
	var all []choice
	var shown []ranks // shown ranks of each attempt
	for i := range r.Trace.Attempts {
		a := &r.Trace.Attempts[i]
		shown = append(shown, shownRanks(a))
		for k := range a.Windows {
			c := choice{attempt: i, window: k, why: a.Windows[k].Why}
			for _, t := range a.Windows[k].Tracks {
				if t.Worker >= 0 && t.Worker < len(a.Workers) && shown[i].has(a.Workers[t.Worker].Rank) {
					c.spans += len(t.Spans)
				}
			}
			if c.spans > 0 {
				all = append(all, c)
			}
		}
	}
	kept := choose(all, mostSpans)
	if len(kept) == 0 {
		return nil
	}
	if left := len(all) - len(kept); left > 0 {
		d.Note = fmt.Sprintf("The trace has %s, for which the page has no room.",
			count(left, "more iteration", "more iterations"))
	}
	for i := range r.Trace.Attempts {
		a := &r.Trace.Attempts[i]
		s := newSites(a)
		if shown[i] != nil {
			d.Note = join(d.Note, fmt.Sprintf("The run has %d ranks. The timeline shows the %d that waited most, and "+
				"the %d that waited least: the others wait for them.", a.Ranks, mostRanks/2, mostRanks/2))
		}
		for _, c := range kept {
			if c.attempt == i {
				d.Windows = append(d.Windows, packWindow(p, a, i, &a.Windows[c.window], s, shown[i]))
			}
		}
		d.Attempts = append(d.Attempts, attemptData{workersOf(a), s.list})
	}
	return d
}

// A choice is a window that the page could show.
type choice struct {
	attempt, window int
	spans           int
	why             trace.Reason
}

// choose selects windows for a page, and returns them in their order. limit is the maximum number of spans. The last
// windows before an error take precedence, then the slowest, the first, and the regular windows. If the windows of a
// kind do not fit, choose drops every second window of this kind until the rest fits. It returns at least one window.
func choose(all []choice, limit int) []choice {
	important := []trace.Reason{trace.Last, trace.Slowest, trace.First, trace.Regular, trace.All}
	kept, room := make([]bool, len(all)), limit
	for _, why := range important {
		var of []int
		total := 0
		for i, c := range all {
			if c.why == why {
				of = append(of, i)
				total += c.spans
			}
		}
		for total > room && len(of) > 1 {
			var half []int
			total = 0
			for i := 0; i < len(of); i += 2 {
				half = append(half, of[i])
				total += all[of[i]].spans
			}
			of = half
		}
		if total > room && room < limit {
			continue
		}
		for _, i := range of {
			kept[i] = true
		}
		if room -= total; room <= 0 {
			break
		}
	}
	var some []choice
	for i, c := range all {
		if kept[i] {
			some = append(some, c)
		}
	}
	return some
}

// ranks is a set of ranks. nil stands for all ranks.
type ranks map[int]bool

func (r ranks) has(rank int) bool { return r == nil || r[rank] }

// shownRanks returns the ranks that the page shows. In a large world these are the mostRanks/2 ranks that waited most,
// and the mostRanks/2 ranks that waited least, because ranks that wait little delay the others. In a small world it
// returns nil.
func shownRanks(a *trace.Attempt) ranks {
	if a.Ranks <= mostRanks {
		return nil
	}
	of := timeline.Waits(a).Ranks
	slices.SortStableFunc(of, func(a, b timeline.RankTotal) int {
		return cmp.Compare(b.Times.Waited()/max(b.Times.Total(), 1e-9), a.Times.Waited()/max(a.Times.Total(), 1e-9))
	})
	some := ranks{}
	for i, t := range of {
		if i < mostRanks/2 || i >= len(of)-mostRanks/2 {
			some[t.Rank] = true
		}
	}
	for rank := 0; len(some) < mostRanks; rank++ { // fewer ranks than mostRanks have sums
		some[rank] = true
	}
	return some
}

func workersOf(a *trace.Attempt) []workerData {
	all := make([]workerData, len(a.Workers))
	for i, w := range a.Workers {
		all[i] = workerData{Rank: w.Rank, Name: nameOf(&w), Runner: w.Component == trace.Runner}
	}
	return all
}

// nameOf returns the name of a worker, such as actor 3.
func nameOf(w *trace.Lane) string { return plain(fmt.Sprintf("%s %d", w.Component, w.Member)) }

// sites has the sites of all workers of an attempt, without keys.
type sites struct {
	list    []siteData
	indices [][]uint16 // the place of each site in list, by worker and site
}

func newSites(a *trace.Attempt) *sites {
	s := &sites{indices: make([][]uint16, len(a.Workers))}
	seen := map[siteData]uint16{}
	add := func(d siteData) uint16 {
		at, ok := seen[d]
		if !ok && len(s.list) < math.MaxUint16 {
			at = uint16(len(s.list))
			seen[d], s.list = at, append(s.list, d)
		}
		return at
	}
	add(siteData{Op: trace.Skipped, Name: "not recorded", Cause: string(trace.Unrecorded)})
	for i, w := range a.Workers {
		for _, of := range w.Sites {
			d := siteData{of.Op, plain(of.Name), plain(of.Peer), plain(string(of.Cause))}
			s.indices[i] = append(s.indices[i], add(d))
		}
	}
	return s
}

// indexOf returns the index of a worker's site in the list. It returns 0 for a site that does not exist.
func (s *sites) indexOf(worker, site int) uint16 {
	if site < 0 || site >= len(s.indices[worker]) {
		return 0
	}
	return s.indices[worker][site]
}

// packWindow packs the tracks of the shown ranks.
func packWindow(p *packer, a *trace.Attempt, attempt int, w *trace.Window, s *sites, shown ranks) windowData {
	start, end := int64(math.MaxInt64), int64(math.MinInt64)
	var tracks []trace.Track
	for _, t := range w.Tracks {
		if len(t.Spans) == 0 || t.Worker < 0 || t.Worker >= len(a.Workers) || !shown.has(a.Workers[t.Worker].Rank) {
			continue
		}
		tracks = append(tracks, t)
		start, end = min(start, t.Spans[0].Start), max(end, t.Spans[len(t.Spans)-1].End)
	}
	tick := max(int64(leastTick), (end-start)/math.MaxInt32+1)
	at := func(ns int64) uint32 { return uint32(min(max(ns-start+tick/2, 0)/tick, math.MaxUint32)) }
	var workers []uint16
	var firsts, counts, lengths []uint32
	var of []uint16
	var args []int32
	for _, t := range tracks {
		last := at(t.Spans[0].Start)
		workers, firsts = append(workers, uint16(t.Worker)), append(firsts, last)
		n := len(of)
		add := func(site uint16, until uint32, arg int64) {
			of, lengths = append(of, site), append(lengths, until-last)
			args = append(args, int32(min(max(arg, math.MinInt32), math.MaxInt32)))
			last = until
		}
		for _, span := range t.Spans {
			if from := at(span.Start); from > last {
				add(0, from, 0)
			}
			add(s.indexOf(t.Worker, span.Site), max(at(span.End), last), span.Arg)
		}
		counts = append(counts, uint32(len(of)-n))
	}
	return windowData{Attempt: attempt, Iteration: w.Iteration, Why: cmp.Or(reasons[w.Why], plain(string(w.Why))),
		Tick: float64(tick) / 1e9, Bound: float64(w.Bound) / 1e9, Workers: p.u16(workers), Firsts: p.u32(firsts),
		Counts: p.u32(counts), Sites: p.u16(of), Lengths: p.u32(lengths), Args: p.i32(args),
		Path: packPath(p, timeline.CriticalPath(a, w), at)}
}

// mostSegments is the maximum number of segments of a path on a page.
const mostSegments = 20_000

func packPath(p *packer, c *timeline.Path, at func(int64) uint32) *path {
	if len(c.Segments) == 0 || len(c.Segments) > mostSegments {
		return nil
	}
	var workers []uint16
	var starts, ends []uint32
	var kinds []uint8
	for _, s := range c.Segments {
		workers, kinds = append(workers, uint16(s.Worker)), append(kinds, uint8(s.Kind))
		starts, ends = append(starts, at(s.Start)), append(ends, at(s.End))
	}
	return &path{p.u16(workers), p.u32(starts), p.u32(ends), p.u8(kinds)}
}
