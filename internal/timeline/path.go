package timeline

import (
	"cmp"
	"slices"

	"github.com/rlinf/rlinf/internal/trace"
)

// A Path is the critical path of an iteration. Its segments cover the time from Start to End without gaps.
type Path struct {
	Start, End int64     // start and end of the iteration on rank 0, in nanoseconds
	Segments   []Segment // in the order of time
}

// A Segment is a part of a critical path.
type Segment struct {
	Worker     int // the worker that spent the time; for a Transfer, the receiver
	Op         trace.SiteKind
	Name       string // name of the Site
	Cause      trace.Cause
	Kind       SegmentKind
	Start, End int64 // in nanoseconds
	Peer       int   // for a Transfer, the sender; -1 if there is none, or if it is not known
}

// A SegmentKind is the kind of time in a Segment.
type SegmentKind uint8

// The kinds of segments.
const (
	Busy     SegmentKind = iota // the worker worked, passed data on, or saved
	Transfer                    // data were on their way to the worker: an item, weights, or a collective operation
	Wait                        // the worker waited, and the trace does not say for whom
	Unknown                     // nothing was recorded
)

// CriticalPath returns the critical path of a window. The search begins with rank 0's runner at the end of the
// iteration, and goes back in time:
//
//   - A span of work, of a call, or of a save belongs to the path. The search continues at the start of the span.
//   - At a wait the search continues at the worker that ended the wait, at the time of the event that ended it. The
//     time from this event to the end of the wait is a Transfer.
//   - If this event was before the wait began, the whole wait is a Transfer. The search stays at the waiting worker.
//   - If the trace does not have the event, the wait itself belongs to the path.
//
// Spans are cut at the start of the iteration. A rank whose track begins later has waited for the decision of rank 0.
// If rank 0's runner has no track, the path covers all tracks. The search then begins at the track that ends last.
func CriticalPath(a *trace.Attempt, w *trace.Window) *Path { return newIndex(a).view(w).criticalPath() }

func (v *view) criticalPath() *Path {
	p := &Path{Start: v.start, End: v.end}
	at, t := v.first, v.end
	hops := []int{at} // workers that the search has visited at time t: it must not go in circles
	back := func(s Segment) {
		if s.Worker, s.End = at, t; s.Start == t {
			return
		}
		if p.add(s); s.Start < t {
			t, hops = s.Start, append(hops[:0], at)
		}
	}
	for at != none && t > v.start {
		spans := v.tracks[at].Spans
		i := lastBefore(spans, t)
		if i == none {
			back(v.beforeTrack(at))
			break
		}
		if s := &spans[i]; s.End < t {
			back(Segment{Op: trace.Skipped, Cause: trace.Unrecorded, Kind: Unknown, Start: max(s.End, v.start),
				Peer: none})
			continue
		}
		site := v.site(at, spans[i].Site)
		seg := Segment{Op: site.Op, Name: site.Name, Cause: site.Cause, Kind: v.kind(at, &site), Peer: none,
			Start: max(spans[i].Start, v.start)}
		if next, since := v.ender(at, &spans[i], &site, t); next != none {
			switch {
			case site.Op == trace.Await || site.Op == trace.Idle: // nothing was on its way
				seg.Kind = Wait
			case next == at:
				seg.Kind = Transfer
			default:
				seg.Kind, seg.Peer = Transfer, next
			}
			switch {
			case since <= seg.Start: // the search stays at this worker
			case v.covers(next, since) && (since < t || !slices.Contains(hops, next)):
				seg.Start = since
				back(seg)
				at, hops = next, append(hops, next)
				continue
			default: // the search cannot go to that worker
				seg.Kind, seg.Peer = Wait, none
			}
		}
		back(seg)
	}
	slices.Reverse(p.Segments)
	return p
}

// beforeTrack returns the segment from the start of the iteration to the start of a worker's track. On ranks other than
// 0 an iteration begins when the decision of rank 0 has arrived.
func (v *view) beforeTrack(worker int) Segment {
	runner := v.runner(v.Workers[worker].Rank)
	if runner != none && v.first != none && runner != v.first {
		for _, s := range v.Workers[runner].Sites {
			if s.Op == trace.Vote {
				return Segment{Op: s.Op, Name: s.Name, Cause: s.Cause, Kind: Transfer, Start: v.start, Peer: v.first}
			}
		}
	}
	return Segment{Op: trace.Skipped, Cause: trace.Unrecorded, Kind: Unknown, Start: v.start, Peer: none}
}

// add adds a segment in front of the path. Segments are in reverse order until the search ends. A segment that differs
// from its neighbour only in its times extends the neighbour.
func (p *Path) add(s Segment) {
	if n := len(p.Segments); n > 0 {
		next := &p.Segments[n-1]
		joined := s
		joined.Start, joined.End = next.Start, next.End
		if joined == *next {
			next.Start = s.Start
			return
		}
	}
	p.Segments = append(p.Segments, s)
}

// kind returns the kind of a segment at a site, without regard to other workers. A runner is busy between calls.
func (v *view) kind(worker int, s *trace.Site) SegmentKind {
	return kindOf(v.Workers[worker].Component == trace.Runner, s)
}

func kindOf(runner bool, s *trace.Site) SegmentKind {
	switch {
	case s.Cause == trace.Unrecorded:
		return Unknown
	case s.Op == trace.Idle && runner:
		return Busy
	case s.Cause.IsWait():
		return Wait
	}
	return Busy
}

// covers reports whether worker has a track with spans before t.
func (v *view) covers(worker int, t int64) bool {
	return worker != none && v.tracks[worker] != nil && v.tracks[worker].Spans[0].Start < t
}

// ender returns the worker that ended the wait s, and the time of the event that ended it. t is the time at which the
// path leaves s. If the event is not known, ender returns none.
func (v *view) ender(worker int, s *trace.Span, site *trace.Site, t int64) (next int, at int64) {
	if s.End > t {
		return none, 0 // the path leaves this worker within the wait, so the end of the wait does not matter
	}
	switch site.Op {
	case trace.Get:
		return v.enderOfGet(s, site)
	case trace.Room:
		return v.enderOfRoom(s, site)
	case trace.Collect:
		return v.enderOfCollect(worker, s, site)
	case trace.Vote:
		return v.enderOfVote(worker, s, site)
	case trace.Adopt:
		return v.enderOfAdopt(worker, s, site)
	case trace.Await:
		return v.enderOfAwait(worker, s, site)
	case trace.Idle:
		return v.enderOfIdle(worker, s)
	}
	return none, 0
}

// enderOfGet returns the producer of the item, and the time of its put.
func (v *view) enderOfGet(s *trace.Span, site *trace.Site) (next int, at int64) {
	m, producer := v.putOf(s, site)
	if m == nil {
		return none, 0
	}
	return producer, min(m.At, s.End)
}

// putOf returns the Put mark of the item that a Get received, and the producer. It returns nil if the mark is not
// known.
func (v *view) putOf(s *trace.Span, site *trace.Site) (*trace.Mark, int) {
	producer := v.member(site.Peer, s.Arg)
	if producer == none || v.tracks[producer] == nil {
		return nil, none
	}
	puts := v.groups[groupKey{op: trace.Put, name: site.Name, key: site.Key}]
	first, found := slices.BinarySearchFunc(puts, producer, func(p spot, w int) int { return p.worker - w })
	if !found {
		return nil, none
	}
	of, marks := v.marksOf(producer, puts[first].site), v.tracks[producer].Marks
	i, found := slices.BinarySearchFunc(of, s.Item, func(i int, n int64) int { return cmp.Compare(marks[i].N, n) })
	if !found || marks[of[i]].At > s.End+2*v.window.Bound {
		return nil, none
	}
	return &marks[of[i]], producer
}

// enderOfRoom returns the consumer that made room, and the last time within s at which the consumer did not wait. The
// consumer made the room at this time or earlier.
func (v *view) enderOfRoom(s *trace.Span, site *trace.Site) (next int, at int64) {
	consumer := v.member(site.Peer, s.Arg)
	if s.Arg < 0 {
		consumer = v.lastConsumer(site, s.End)
	}
	return v.lastAwake(consumer, s)
}

// lastConsumer returns the consumer whose Get for the site's key began last before t, or none.
func (v *view) lastConsumer(site *trace.Site, t int64) int {
	consumer, newest := none, int64(0)
	for _, get := range v.groups[groupKey{op: trace.Get, name: site.Name, key: site.Key}] {
		of := v.spansOf(get.worker, get.site)
		if v.Workers[get.worker].Component != site.Peer || len(of) == 0 {
			continue
		}
		spans := v.tracks[get.worker].Spans
		i, _ := slices.BinarySearchFunc(of, t, func(i int, t int64) int { return cmp.Compare(spans[i].Start, t) })
		if i == 0 {
			continue
		}
		if at := spans[of[i-1]].Start; consumer == none || at > newest {
			consumer, newest = get.worker, at
		}
	}
	return consumer
}

// lastAwake returns the given worker, and the last time within s at which it did not wait. It returns none if the
// worker waited all the time or has no track. Between two waits a worker counts as awake.
func (v *view) lastAwake(worker int, s *trace.Span) (next int, at int64) {
	if worker == none || v.tracks[worker] == nil {
		return none, 0
	}
	at, spans := s.End, v.tracks[worker].Spans
	if i := lastBefore(spans, s.End); i >= 0 && spans[i].End >= s.End {
		if site := v.site(worker, spans[i].Site); v.kind(worker, &site) == Wait {
			at = spans[i].Start
		}
	}
	if at <= s.Start {
		return none, 0
	}
	return worker, at
}

// enderOfCollect returns the member that began the operation last, before the end of s. If this was the waiting worker,
// the whole span is communication.
func (v *view) enderOfCollect(worker int, s *trace.Span, site *trace.Site) (next int, at int64) {
	next, at = worker, s.Start
	for _, of := range v.groupSites(worker, site) {
		if o := v.nth(of, s.N); o != nil && o.Start > at && o.Start <= s.End && of.worker != worker {
			next, at = of.worker, o.Start
		}
	}
	return next, at
}

// enderOfVote returns the runner that arrived last. Rank 0 waits for the votes of the other ranks. They sent these
// votes after the previous decision. The other ranks wait for the decision of rank 0.
func (v *view) enderOfVote(worker int, s *trace.Span, site *trace.Site) (next int, at int64) {
	if v.Workers[worker].Member != 0 {
		return v.enderOfCollect(worker, s, site)
	}
	next, at = worker, s.Start
	for _, of := range v.groupSites(worker, site) {
		if o := v.nth(of, s.N-1); o != nil && o.End > at && o.End <= s.End && of.worker != worker {
			next, at = of.worker, o.End
		}
	}
	return next, at
}

// enderOfAdopt returns the worker that was the last to publish the version before the end of the wait. If several
// workers published it at this time, enderOfAdopt prefers a worker on the same rank.
func (v *view) enderOfAdopt(worker int, s *trace.Span, site *trace.Site) (next int, at int64) {
	next = none
	for _, of := range v.groups[groupKey{op: trace.Publish, name: site.Name}] {
		p := v.publishOf(of, s)
		if p == nil || of.worker == worker {
			continue
		}
		published := min(p.End, s.End)
		same := v.Workers[of.worker].Rank == v.Workers[worker].Rank
		if next == none || published > at ||
			published == at && same && v.Workers[next].Rank != v.Workers[worker].Rank {
			next, at = of.worker, published
		}
	}
	return next, at
}

// publishOf returns the last span in which a worker published the version that s adopted, or nil.
func (v *view) publishOf(at spot, s *trace.Span) *trace.Span {
	of := v.spansOf(at.worker, at.site)
	for i := len(of) - 1; i >= 0; i-- {
		if p := &v.tracks[at.worker].Spans[of[i]]; p.Arg == s.Arg && p.Start <= s.End {
			return p
		}
	}
	return nil
}

// enderOfAwait returns the worker of this rank that ended the call last.
func (v *view) enderOfAwait(runner int, s *trace.Span, site *trace.Site) (next int, at int64) {
	next = none
	for _, worker := range v.byRank[v.Workers[runner].Rank] {
		if v.tracks[worker] == nil || site.Peer != "" && v.Workers[worker].Component != site.Peer {
			continue
		}
		if ended, ok := v.endOfCall(worker, site.Name, s.End); ok && ended > s.Start && (next == none || ended > at) {
			next, at = worker, ended
		}
	}
	return next, at
}

// endOfCall returns the last time up to t at which a worker ended the named call. If the trace shows that the call
// still runs at t, endOfCall returns t, because the runner has seen the end by then.
func (v *view) endOfCall(worker int, name string, t int64) (at int64, ok bool) {
	if !slices.ContainsFunc(v.Workers[worker].Sites, func(s trace.Site) bool {
		return s.Op == trace.Call && s.Name == name
	}) {
		return 0, false
	}
	spans := v.tracks[worker].Spans
	last := lastBefore(spans, t)
	for i := last; i >= 0; i-- {
		if i == last {
			at = min(t, spans[i].End)
		}
		switch site := v.site(worker, spans[i].Site); {
		case site.Op == trace.Call && site.Name == name:
			return at, true
		case site.Op == trace.Idle || site.Op == trace.Call:
			at = spans[i].Start
		}
	}
	return 0, false
}

// enderOfIdle returns the runner of the worker's rank. This runner called the worker.
func (v *view) enderOfIdle(worker int, s *trace.Span) (next int, at int64) {
	runner := v.runner(v.Workers[worker].Rank)
	if runner == worker {
		return none, 0
	}
	return v.lastAwake(runner, s)
}
