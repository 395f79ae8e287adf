package trace

import (
	"cmp"
	"encoding/binary"
	"sync"
)

// A Recorder records the spans of one goroutine. Only this goroutine calls Begin, End, Mark and Pass. These methods do
// not allocate. An inner span cuts the outer span in two, so that spans never overlap. The Log may call all other
// methods at any time.
type Recorder struct {
	component string
	member    int
	clock     func() int64
	tally     *tally // tally of the rank

	mu     sync.Mutex
	sites  []Site
	index  map[Site]int
	kinds  []int   // kinds in the tally, by site
	open   []int   // the sites of the open spans, the outermost first; never empty
	last   int64   // time of the last boundary
	times  []int64 // times of the present iteration, by site
	before []int64 // times of the previous iteration, by site
	count  []int64 // spans and marks begun so far, by site

	now  *slot    // slot of the present iteration
	past [2]*slot // slots of the previous two iterations, the newest first
	held *slot    // slot of the slowest iteration of the present hundred; empty if there is none

	events  int   // number of events in the present iteration
	stride  int   // every stride-th block of events is recorded
	skipped int64 // when the recording paused; 0 while events are recorded

	finished bool // the recording has ended

	sums []int64 // for each iteration since the last chunk: its number, the number of sites, and the times of the sites
}

const (
	slotBytes  = 1 << 18 // a worker has four slots: one MiB
	eventBytes = 4 * binary.MaxVarintLen64
	blockSize  = 1 << 12 // events
	maxDepth   = 16
	maxStride  = 1 << 10
)

// A slot holds the events of one iteration. An event is a code and the nanoseconds since the previous event. A mark or
// an end is followed by its Arg (see SiteKind). The end of a Get is also followed by Span.Item minus Span.N.
type slot struct {
	iteration  int64 // 0 if the slot is empty
	start, end int64
	stack      []int   // the open sites at the start
	count      []int64 // counts at the start, by site
	events     []byte
	cut        bool // the last events are missing
	written    bool
}

// Codes of events. The beginning of a span at site i is firstSite+2i, and a mark at that site is firstSite+2i+1.
// codeResume is followed by the nanoseconds of the pause and the state of the recorder (see appendState).
const (
	codeEnd = iota
	codeResume
	firstSite
)

func newRecorder(clock func() int64, t *tally, component string, member int) *Recorder {
	r := &Recorder{component: component, member: member, clock: clock, tally: t, index: map[Site]int{}, stride: 1,
		open: make([]int, 1, maxDepth), last: clock()}
	for _, s := range []**slot{&r.now, &r.past[0], &r.past[1], &r.held} {
		*s = &slot{events: make([]byte, 0, slotBytes), stack: make([]int, 0, maxDepth)}
	}
	base := Site{Op: Idle, Name: "idle", Cause: Idling}
	if component == Runner {
		base = Site{Op: Call, Name: "lead", Cause: Other}
	}
	r.Site(base)
	r.begin(r.last)
	return r
}

// Site returns the index of a site. It adds the site if it is new.
func (r *Recorder) Site(s Site) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, known := r.index[s]
	if !known {
		i = len(r.sites)
		kind := idle
		if s.Op == Work {
			kind = r.tally.kind(workKind{r.component, s.Name})
		}
		r.index[s], r.kinds = i, append(r.kinds, kind)
		r.sites, r.times, r.count = append(r.sites, s), append(r.times, 0), append(r.count, 0)
	}
	return i
}

// Begin begins a span at a site, inside the present span.
func (r *Recorder) Begin(site int) {
	r.mu.Lock()
	now := r.boundary()
	r.event(firstSite+2*site, now)
	r.count[site]++
	r.tally.change(r.kinds[r.open[len(r.open)-1]], r.kinds[site], now)
	r.open = append(r.open, site)
	r.last = now
	r.mu.Unlock()
}

// End ends the present span. arg is the span's argument (see SiteKind). At a Get, n is the item's number at its
// producer. Elsewhere n is 0.
func (r *Recorder) End(arg, n int64) {
	r.mu.Lock()
	if depth := len(r.open); depth > 1 {
		now := r.boundary()
		r.end(r.open[depth-1], now, arg, n)
		r.tally.change(r.kinds[r.open[depth-1]], r.kinds[r.open[depth-2]], now)
		r.open = r.open[:depth-1]
		r.last = now
	}
	r.mu.Unlock()
}

// end writes the end of a span at a site.
func (r *Recorder) end(site int, now, arg, n int64) {
	if r.eventWith(codeEnd, now, arg) && r.sites[site].Op == Get {
		r.now.events = binary.AppendVarint(r.now.events, n-(r.count[site]-1))
	}
}

// Mark records an instant at a site.
func (r *Recorder) Mark(site int, arg int64) {
	r.mu.Lock()
	now := r.boundary()
	r.eventWith(firstSite+2*site+1, now, arg)
	r.count[site]++
	r.last = now
	r.mu.Unlock()
}

// Pass records a span of no length, for a wait that ended at once. It does not read the clock.
func (r *Recorder) Pass(site int, arg, n int64) {
	r.mu.Lock()
	r.event(firstSite+2*site, r.last)
	r.count[site]++
	r.end(site, r.last, arg, n)
	r.mu.Unlock()
}

// Divide moves nanoseconds of the present span to a site, in the sums of times. It moves at most what the span has
// spent in this iteration. It writes no event.
func (r *Recorder) Divide(site int, ns int64) {
	r.mu.Lock()
	from := r.open[len(r.open)-1]
	ns = min(ns, r.times[from]+max(r.clock()-r.last, 0))
	r.times[from] -= ns
	r.times[site] += ns
	r.mu.Unlock()
}

// boundary returns the present time, and adds the time since the last boundary to the site of the present span.
func (r *Recorder) boundary() int64 {
	now := max(r.clock(), r.last)
	r.times[r.open[len(r.open)-1]] += now - r.last
	return now
}

// advance moves the last boundary to the given time, inside the present span.
func (r *Recorder) advance(at int64) {
	at = max(at, r.last)
	r.times[r.open[len(r.open)-1]] += at - r.last
	r.last = at
}

// event writes the code and the time of an event. It returns false if it has not written the event: the recording has
// ended, the slot is full, or the event's block is not recorded (see stride).
func (r *Recorder) event(code int, now int64) bool {
	if r.finished {
		return false
	}
	s := r.now
	block := r.events / blockSize
	r.events++
	need := eventBytes
	if r.skipped > 0 {
		need += (3 + len(r.open) + len(r.sites)) * binary.MaxVarintLen64
	}
	if block%r.stride != 0 || len(s.events)+need > cap(s.events) {
		r.skipped = cmp.Or(r.skipped, max(r.last, 1))
		return false
	}
	if r.skipped > 0 {
		b := binary.AppendUvarint(append(s.events, codeResume), uint64(r.last-r.skipped))
		r.skipped = 0
		s.events = appendState(b, r.open, r.count)
	}
	s.events = binary.AppendUvarint(s.events, uint64(code))
	s.events = binary.AppendUvarint(s.events, uint64(now-r.last))
	return true
}

func (r *Recorder) eventWith(code int, now, arg int64) bool {
	written := r.event(code, now)
	if written {
		r.now.events = binary.AppendVarint(r.now.events, arg)
	}
	return written
}

// appendState appends the open sites and the counts of all sites.
func appendState(b []byte, open []int, count []int64) []byte {
	b = binary.AppendUvarint(b, uint64(len(open)))
	for _, site := range open {
		b = binary.AppendUvarint(b, uint64(site))
	}
	b = binary.AppendUvarint(b, uint64(len(count)))
	for _, n := range count {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

// begin empties the present slot, and starts it at the given time.
func (r *Recorder) begin(at int64) {
	s := r.now
	*s = slot{start: at, stack: append(s.stack[:0], r.open...), count: append(s.count[:0], r.count...),
		events: s.events[:0]}
	r.events, r.skipped = 0, 0
}

// cut gives the present iteration its number, ends it, and begins the next iteration. Iteration 0 is the time before
// the first iteration; it is dropped.
func (r *Recorder) cut(iteration, at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.finished {
		return
	}
	r.advance(at)
	if iteration > 0 {
		s := r.seal(iteration)
		if s.cut && r.stride < maxStride && len(s.events) > cap(s.events)/2 {
			r.stride *= 2
		} else if r.stride > 1 && len(s.events) < cap(s.events)/4 {
			r.stride /= 2
		}
		r.now, r.past[0], r.past[1] = r.past[1], s, r.past[0]
	}
	r.before = append(r.before[:0], r.times...)
	clear(r.times)
	r.begin(at)
}

// seal adds the times of an iteration to the sums, and ends the iteration's slot at the last boundary.
func (r *Recorder) seal(iteration int64) *slot {
	r.sums = append(r.sums, iteration, int64(len(r.times)))
	r.sums = append(r.sums, r.times...)
	s := r.now
	s.iteration, s.end, s.cut = iteration, r.last, r.skipped > 0
	return s
}

// finish ends the present iteration and the recording.
func (r *Recorder) finish(iteration, at int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.finished {
		return
	}
	r.advance(at)
	r.finished = true
	r.seal(iteration)
}

// forget drops the sums because they cannot be written.
func (r *Recorder) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sums = r.sums[:0]
}

// hold keeps the slot of an iteration until another slot is held.
func (r *Recorder) hold(iteration int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, s := range r.past {
		if s.iteration == iteration {
			r.past[i], r.held = r.held, s // the old held slot may be one of the last two iterations
		}
	}
}

// slot returns the slot of an iteration that has ended. It returns nil if there is no slot, or if it was already
// written.
func (r *Recorder) slot(iteration int64) *slot {
	for _, s := range []*slot{r.now, r.past[0], r.past[1], r.held} {
		if s.iteration == iteration && !s.written {
			return s
		}
	}
	return nil
}
