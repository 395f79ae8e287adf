package timeline_test

import (
	"slices"

	"github.com/rlinf/rlinf/internal/timeline"
	"github.com/rlinf/rlinf/internal/trace"
)

// ms is the unit of times in tests.
const ms = 1_000_000

// A script makes an attempt by hand. Its workers go through the iterations span by span.
type script struct {
	trace.Attempt
	workers []*worker
	unit    int64 // of times, in ns; 0: ms
}

// A worker adds spans to its track. Each span begins at the end of the span before it.
type worker struct {
	of    *script
	index int
	now   int64 // in units
	spans []trace.Span
	marks []trace.Mark
	count map[trace.Site]int64
	got   map[source]int64
}

// A source is a producer of the items of a key.
type source struct {
	edge     edge
	producer int64
}

func (s *script) worker(rank int, component string, member int) *worker {
	w := &worker{of: s, index: len(s.workers), count: map[trace.Site]int64{},
		got: map[source]int64{}}
	s.workers = append(s.workers, w)
	s.Workers = append(s.Workers, trace.Lane{Rank: rank, Component: component, Member: member})
	s.Ranks = max(s.Ranks, rank+1)
	return w
}

// keep ends an iteration for all workers. It adds the sums and, if why is not "", the window.
func (s *script) keep(iteration int64, why trace.Reason) {
	win := trace.Window{Iteration: iteration, Why: why}
	for _, w := range s.workers {
		sum := trace.Sum{Iteration: iteration, Worker: w.index, Times: make([]int64, len(s.Workers[w.index].Sites))}
		for _, sp := range w.spans {
			sum.Times[sp.Site] += sp.End - sp.Start
		}
		s.Sums = append(s.Sums, sum)
		if len(w.spans) > 0 {
			win.Tracks = append(win.Tracks, trace.Track{Worker: w.index, Spans: w.spans, Marks: w.marks})
		}
		w.spans, w.marks = nil, nil
	}
	if why != "" {
		s.Windows = append(s.Windows, win)
	}
}

// ns returns a time in ns.
func (w *worker) ns(t int64) int64 {
	if w.of.unit == 0 {
		return t * ms
	}
	return t * w.of.unit
}

// site returns the index of a site, and the number of earlier spans or marks at the site.
func (w *worker) site(of trace.Site) (site int, n int64) {
	sites := &w.of.Workers[w.index].Sites
	if site = slices.Index(*sites, of); site < 0 {
		site, *sites = len(*sites), append(*sites, of)
	}
	n = w.count[of]
	w.count[of]++
	return site, n
}

// until adds a span that ends at a time.
func (w *worker) until(end int64, of trace.Site, arg int64) *worker {
	site, n := w.site(of)
	w.spans = append(w.spans, trace.Span{Site: site, Start: w.ns(w.now), End: w.ns(end), Arg: arg, N: n})
	w.now = end
	return w
}

func (w *worker) work(name string, length int64) *worker {
	return w.until(w.now+length, trace.Site{Op: trace.Work, Name: name, Cause: trace.Working}, 0)
}

func (w *worker) call(name string, length int64) *worker {
	return w.until(w.now+length, trace.Site{Op: trace.Call, Name: name, Cause: trace.Other}, 0)
}

func (w *worker) idle(end int64) *worker {
	return w.until(end, trace.Site{Op: trace.Idle, Cause: trace.Idling}, 0)
}

// between is the time of a runner between calls.
func (w *worker) between(length int64) *worker {
	return w.until(w.now+length, trace.Site{Op: trace.Idle, Cause: trace.Other}, 0)
}

func (w *worker) await(component, name string, end int64) *worker {
	return w.until(end, trace.Site{Op: trace.Await, Name: name, Peer: component, Cause: trace.Calling}, 0)
}

func (w *worker) vote(end int64) *worker {
	return w.until(end, trace.Site{Op: trace.Vote, Name: "votes", Cause: trace.Voting}, 0)
}

func (w *worker) collect(name string, end int64) *worker {
	return w.until(end, trace.Site{Op: trace.Collect, Name: name, Cause: trace.Gradient}, 0)
}

func (w *worker) publish(version, end int64) *worker {
	return w.until(end, trace.Site{Op: trace.Publish, Name: "weights", Cause: trace.Weights}, version)
}

func (w *worker) adopt(version, end int64) *worker {
	return w.until(end, trace.Site{Op: trace.Adopt, Name: "weights", Cause: trace.Weights}, version)
}

// An edge is a key of a channel from one component to another.
type edge struct {
	channel, key, from, to string
	cause                  trace.Cause
}

func (w *worker) put(e edge, consumer int64) *worker {
	site, n := w.site(trace.Site{Op: trace.Put, Name: e.channel, Key: e.key, Peer: e.to, Cause: trace.Other})
	w.marks = append(w.marks, trace.Mark{Site: site, At: w.ns(w.now), Arg: consumer, N: n})
	return w
}

func (w *worker) get(e edge, producer, end int64) *worker {
	w.until(end, trace.Site{Op: trace.Get, Name: e.channel, Key: e.key, Peer: e.from, Cause: e.cause}, producer)
	from := source{e, producer}
	w.spans[len(w.spans)-1].Item = w.got[from]
	w.got[from]++
	return w
}

func (w *worker) room(e edge, consumer, end int64) *worker {
	return w.until(end, trace.Site{Op: trace.Room, Name: e.channel, Key: e.key, Peer: e.to, Cause: trace.NoRoom},
		consumer)
}

// A step is a short form of a segment: the worker, its site and kind, and its length in ms.
type step struct {
	worker int
	name   string
	kind   timeline.SegmentKind
	length int64
	peer   int
}

func steps(p *timeline.Path) (list []step) {
	for _, s := range p.Segments {
		list = append(list, step{s.Worker, s.Name, s.Kind, (s.End - s.Start) / ms, s.Peer})
	}
	return list
}
