package trace

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
)

// Read reads the trace of the run in a folder. It leaves out damaged parts, and lists them in Problems. If the run has
// no trace, it returns an empty Trace. It keeps only a sample of the iterations of a very long trace, and says so in
// Problems.
func Read(run string) (*Trace, error) {
	dir := filepath.Join(run, Folder)
	entries, err := os.ReadDir(dir) // sorted by name
	if errors.Is(err, fs.ErrNotExist) {
		return &Trace{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	r := newReader()
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".bin") || !e.Type().IsRegular() {
			continue
		}
		if err := r.open(filepath.Join(dir, e.Name())); err != nil {
			r.problem("%s: %v", e.Name(), err)
		}
	}
	return r.trace(), nil
}

// open reads the file at path.
func (r *reader) open(path string) error {
	f, err := durable.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return r.readFile(filepath.Base(path), f, info.Size())
}

// Parse returns the trace in files whose contents are in memory. Problems refer to the files by the given names.
func Parse(names []string, files [][]byte) *Trace {
	r := newReader()
	for i, name := range names {
		_ = r.readFile(name, bytes.NewReader(files[i]), int64(len(files[i]))) // reading from memory does not fail
	}
	return r.trace()
}

// A reader joins the chunks of all files of a trace.
type reader struct {
	attempts map[int64]*attempt
	problems []string
	more     int // number of further problems
	// Samples of the iterations whose spans, sums and phases are kept. Their sizes count spans, times and ranks.
	spans, sums, phases sample
}

// An attempt collects the chunks of one start of the run.
type attempt struct {
	ranks   int
	hosts   map[int]string
	workers map[workerKey]*worker
	windows map[int64]*Window
	phases  map[int64]Phases
	sent    map[int][]Sent // by rank
	offsets map[nodeTime]Offset
	known   map[int]Offset // the last offset of each node, for iterations without an offset
}

// A nodeTime is an iteration on a node.
type nodeTime struct {
	node      int
	iteration int64
}

type workerKey struct {
	rank      int
	component string
	member    int
}

type worker struct {
	Lane
	sums   []Sum
	tracks map[int64]Track
	newest int64 // the last iteration with sums
}

func newAttempt(ranks int) *attempt {
	return &attempt{ranks: ranks, hosts: map[int]string{}, workers: map[workerKey]*worker{},
		windows: map[int64]*Window{}, phases: map[int64]Phases{}, sent: map[int][]Sent{},
		offsets: map[nodeTime]Offset{}, known: map[int]Offset{}}
}

func newReader() *reader {
	return &reader{attempts: map[int64]*attempt{}, spans: sample{most: mostSpans, every: 1},
		sums: sample{most: mostTimes, every: 1}, phases: sample{most: mostTimes, every: 1}}
}

func (r *reader) problem(format string, args ...any) {
	if len(r.problems) == mostProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// readFile reads the chunks of a file with the given size. After a damaged chunk it continues at the next magic word.
func (r *reader) readFile(name string, in io.ReaderAt, size int64) error {
	p := pieces{in: in, size: size}
	unread, chunks := 0, 0 // number of complete chunks in another format, and of all complete chunks
	defer func() {
		if unread > 0 {
			r.problem("%s: %d of %d chunks are damaged, or another version of rlinf wrote them", name, unread, chunks)
		}
	}()
	for at := int64(0); at < size; {
		frame := p.at(at, int64(frameBytes))
		switch {
		case p.err != nil:
			return p.err
		case !bytes.HasPrefix(frame, []byte(magic)):
			next := p.find(at)
			r.problem("%s: %d bytes at byte %d are damaged", name, next-at, at)
			at = next
			continue
		case len(frame) < frameBytes:
			r.problem("%s: the last chunk is cut off", name)
			return nil
		}
		length := int64(binary.LittleEndian.Uint32(frame[len(magic):]))
		sum := binary.LittleEndian.Uint32(frame[len(magic)+4:])
		var body []byte
		if length <= maxChunk {
			body = p.at(at+int64(frameBytes), length)
		}
		switch {
		case p.err != nil:
			return p.err
		case length > maxChunk || int64(len(body)) == length && crc32.ChecksumIEEE(body) != sum:
			r.problem("%s: the chunk at byte %d is damaged", name, at)
			at += int64(len(magic))
		case int64(len(body)) < length:
			next := p.find(at + int64(len(magic)))
			if next == size {
				r.problem("%s: the last chunk is cut off", name)
				return p.err
			}
			r.problem("%s: the chunk at byte %d is cut off", name, at) // by the end of an earlier attempt
			at = next
		default:
			if chunks++; !r.readChunk(body) {
				unread++
			}
			at += int64(frameBytes) + length
		}
	}
	return p.err
}

// readChunk reads a payload. It returns false if the payload has another format.
func (r *reader) readChunk(payload []byte) bool {
	d := &decoder{b: payload}
	kind := d.byte()
	id := d.int()
	rank, ranks, node, host := int(d.uint()), int(d.uint()), int(d.uint()), d.string()
	const most = 1 << 20
	if d.bad || ranks < 1 || ranks > most || rank >= ranks || node >= ranks {
		return false
	}
	a := r.attempts[id]
	if a == nil {
		a = newAttempt(ranks)
		r.attempts[id] = a
	}
	a.hosts[node] = host
	switch kind {
	case chunkPhases:
		p := d.phases()
		if d.bad || len(d.b) > 0 {
			return false
		}
		if _, known := a.phases[p.Iteration]; !known && r.phases.add(p.Iteration, len(p.Ranks)+len(p.Slowest)+10) {
			a.phases[p.Iteration] = p
			r.thinPhases()
		}
		return true
	case chunkSent:
		all := make([]Sent, d.count())
		for i := range all {
			all[i] = Sent{rank, int(d.uint()), d.int(), d.int()}
			if d.bad || all[i].To >= ranks {
				return false
			}
		}
		a.sent[rank] = all
		return len(d.b) == 0
	case chunkOfRank:
		ok := r.readRankChunk(a, d, rank, node)
		r.thinSpans()
		r.thinSums()
		return ok
	}
	return false
}

// readRankChunk reads the sums and windows of a rank.
func (r *reader) readRankChunk(a *attempt, d *decoder, rank, node int) bool {
	offset := Offset{d.int(), d.int()}
	workers := make([]*worker, d.count())
	for i := range workers {
		key := workerKey{rank, d.string(), int(d.uint())}
		w := a.workers[key]
		if w == nil {
			w = &worker{Lane: Lane{Rank: rank, Node: node, Component: key.component, Member: key.member},
				tracks: map[int64]Track{}}
			a.workers[key] = w
		}
		workers[i] = w
		if !w.read(d, &r.sums) {
			return false
		}
	}
	for range d.count() {
		iteration, why := d.int(), Reason(d.string())
		if d.bad {
			return false
		}
		w := a.windows[iteration]
		if w == nil {
			w = &Window{Iteration: iteration, Why: why}
		}
		if w.Why == Last && why != Last {
			w.Why = why
		}
		if r.spans.has(iteration) {
			a.windows[iteration] = w
		}
		if offset.Bound >= 0 && r.spans.has(iteration) {
			a.offsets[nodeTime{node, iteration}], a.known[node] = offset, offset
		}
		for _, worker := range workers {
			flags := d.byte()
			if flags == 0 {
				continue
			}
			t, ok := worker.readTrack(d, flags&2 != 0)
			if !ok {
				return false
			}
			if r.spans.add(iteration, len(t.Spans)+len(t.Marks)-len(worker.tracks[iteration].Spans)) {
				worker.tracks[iteration] = t
			}
		}
	}
	return !d.bad && len(d.b) == 0
}

// read reads the sites and the sums of a worker. It keeps the sums of a sample of the iterations. Sums come in the
// order of iterations, so a sum that is out of order repeats an earlier one.
func (w *worker) read(d *decoder, kept *sample) bool {
	sites := make([]Site, d.count())
	for i := range sites {
		sites[i] = Site{Op: SiteKind(d.byte()), Name: d.string(), Key: d.string(), Peer: d.string(),
			Cause: Cause(d.string())}
	}
	if len(sites) == 0 {
		return false
	}
	if len(sites) > len(w.Sites) {
		w.Sites = sites
	}
	for n := d.count(); n > 0; {
		s := Sum{Iteration: d.int()}
		times := int(d.int())
		if d.bad || times < 0 || times > n-2 || times > len(sites) {
			return false
		}
		keep := s.Iteration > w.newest && kept.add(s.Iteration, times+6)
		if keep {
			s.Times = make([]int64, times)
			w.sums = append(w.sums, s)
		}
		for i := range times {
			if x := d.int(); keep {
				s.Times[i] = x
			}
		}
		w.newest = max(w.newest, s.Iteration)
		n -= 2 + times
	}
	return !d.bad
}

// readTrack decodes the events of a slot. If cut is true, the last events are missing. Times are on the clock of the
// worker's node.
func (w *worker) readTrack(d *decoder, cut bool) (t Track, ok bool) {
	start := d.int()
	end := start + d.int()
	p := player{sites: len(w.Sites), at: start}
	if !p.state(d) {
		return t, false
	}
	e := &decoder{b: d.bytes()}
	for len(e.b) > 0 {
		code := e.uint()
		switch {
		case code == codeEnd:
			p.end(e, w)
		case code == codeResume:
			p.skip(e)
		case (code-firstSite)/2 >= int64(len(w.Sites)):
			return t, false
		case (code-firstSite)%2 == 1:
			p.mark(e, int((code-firstSite)/2))
		default:
			p.begin(e, int((code-firstSite)/2))
		}
		if e.bad || p.bad || p.at > end {
			return t, false
		}
	}
	if cut {
		p.piece(end, skippedSite)
	} else {
		p.piece(end, p.top().site)
	}
	return Track{Spans: p.spans, Marks: p.marks}, !d.bad
}

// skippedSite stands for a site with SiteKind Skipped until all sites of the worker are known.
const skippedSite = -1

// A player replays the events of a slot. An inner span cuts the span around it into pieces, and each piece becomes a
// Span.
type player struct {
	sites int        // number of the worker's sites
	at    int64      // time of the last event
	open  []openSpan // the outermost first
	count []int64    // spans and marks so far, by site
	spans []Span
	marks []Mark
	bad   bool
}

// An openSpan is a span that has not ended.
type openSpan struct {
	site   int
	n      int64 // see Span.N
	pieces []int // its pieces so far, as indices in player.spans
}

func (p *player) top() *openSpan { return &p.open[len(p.open)-1] }

// state reads the open sites and the counts of all sites.
func (p *player) state(d *decoder) bool {
	p.open, p.count = nil, nil
	for range d.count() {
		site := int(d.uint())
		if site >= p.sites {
			return false
		}
		p.open = append(p.open, openSpan{site: site})
	}
	for range d.count() {
		p.count = append(p.count, d.uint())
	}
	if d.bad || len(p.open) == 0 || len(p.count) > p.sites {
		return false
	}
	for len(p.count) < p.sites {
		p.count = append(p.count, 0)
	}
	for i := range p.open {
		p.open[i].n = max(p.count[p.open[i].site]-1, 0)
	}
	return true
}

// piece ends the present piece at the given time. site is the site of the piece, or skippedSite.
func (p *player) piece(at int64, site int) {
	o := p.top()
	if at > p.at || site == skippedSite {
		if n := len(p.spans); n > 0 && len(o.pieces) > 0 && o.pieces[len(o.pieces)-1] == n-1 && site == o.site {
			p.spans[n-1].End = at // there were only marks since the last piece of this span
		} else {
			p.spans = append(p.spans, Span{Site: site, Start: p.at, End: at, N: o.n})
			if site == o.site {
				o.pieces = append(o.pieces, n)
			}
		}
	}
	p.at = at
}

// next reads the time of an event, and ends the present piece at that time.
func (p *player) next(d *decoder) { p.piece(p.at+d.uint(), p.top().site) }

func (p *player) begin(d *decoder, site int) {
	p.next(d)
	p.open = append(p.open, openSpan{site: site, n: p.count[site]})
	p.count[site]++
}

func (p *player) end(d *decoder, w *worker) {
	p.next(d)
	arg, o, item := d.int(), p.top(), int64(0)
	if w.Sites[o.site].Op == Get {
		item = o.n + d.int()
	}
	if len(o.pieces) == 0 { // a wait of no length is still a span
		p.spans = append(p.spans, Span{Site: o.site, Start: p.at, End: p.at, N: o.n})
		o.pieces = append(o.pieces, len(p.spans)-1)
	}
	for _, i := range o.pieces {
		p.spans[i].Arg, p.spans[i].Item = arg, item
	}
	if len(p.open) == 1 {
		p.bad = true
		return
	}
	p.open = p.open[:len(p.open)-1]
}

func (p *player) mark(d *decoder, site int) {
	p.next(d)
	p.marks = append(p.marks, Mark{Site: site, At: p.at, Arg: d.int(), N: p.count[site]})
	p.count[site]++
}

// skip replays a time without recorded events.
func (p *player) skip(d *decoder) {
	p.piece(p.at+d.uint(), skippedSite)
	p.bad = !p.state(d)
}

// trace returns the Trace of all files read so far.
func (r *reader) trace() *Trace {
	t := &Trace{Problems: r.problems}
	if r.more > 0 {
		t.Problems = append(t.Problems, fmt.Sprintf("the trace has %d more problems", r.more))
	}
	for _, s := range []struct {
		what string
		sample
	}{{"spans", r.spans}, {"times of workers", r.sums}, {"times of phases", r.phases}} {
		if s.every > 1 {
			t.Problems = append(t.Problems, fmt.Sprintf("the trace is very long: of the %s, those of one in %d "+
				"iterations are read", s.what, s.every))
		}
	}
	for id, a := range r.attempts {
		t.Attempts = append(t.Attempts, a.finish(id))
	}
	slices.SortFunc(t.Attempts, func(a, b Attempt) int { return cmp.Compare(a.ID, b.ID) })
	for i := range t.Attempts {
		t.Problems = append(t.Problems, t.Attempts[i].partialWorkers()...)
	}
	return t
}

func (a *attempt) finish(id int64) Attempt {
	out := Attempt{ID: id, Ranks: a.ranks}
	for node := range slices.Max(slices.Collect(maps.Keys(a.hosts))) + 1 {
		out.Hosts = append(out.Hosts, a.hosts[node])
	}
	workers := slices.SortedFunc(maps.Values(a.workers), func(x, y *worker) int {
		return cmp.Or(cmp.Compare(x.Rank, y.Rank), cmp.Compare(x.Component, y.Component),
			cmp.Compare(x.Member, y.Member))
	})
	for _, w := range a.windows {
		for i, worker := range workers {
			if t, ok := worker.tracks[w.Iteration]; ok {
				t.Worker = i
				worker.nameSkips(&t)
				o, ok := a.offsets[nodeTime{worker.Node, w.Iteration}]
				if !ok {
					o = a.known[worker.Node]
				}
				t.shift(o.Ahead)
				w.Bound = max(w.Bound, o.Bound)
				w.Tracks = append(w.Tracks, t)
			}
		}
		out.Windows = append(out.Windows, *w)
	}
	slices.SortFunc(out.Windows, func(x, y Window) int { return cmp.Compare(x.Iteration, y.Iteration) })
	for i, w := range workers {
		for _, s := range w.sums {
			s.Worker = i
			out.Sums = append(out.Sums, s)
		}
		out.Workers = append(out.Workers, w.Lane)
	}
	slices.SortStableFunc(out.Sums, func(x, y Sum) int {
		return cmp.Or(cmp.Compare(x.Iteration, y.Iteration), cmp.Compare(x.Worker, y.Worker))
	})
	for _, rank := range slices.Sorted(maps.Keys(a.sent)) {
		out.Sent = append(out.Sent, a.sent[rank]...)
	}
	out.Phases = slices.SortedFunc(maps.Values(a.phases), func(x, y Phases) int {
		return cmp.Compare(x.Iteration, y.Iteration)
	})
	return out
}

// shift converts the times of a track to the clock of rank 0's node: it subtracts offset nanoseconds from them.
func (t *Track) shift(offset int64) {
	for i := range t.Spans {
		t.Spans[i].Start -= offset
		t.Spans[i].End -= offset
	}
	for i := range t.Marks {
		t.Marks[i].At -= offset
	}
}

// nameSkips replaces skippedSite in a track by a site with SiteKind Skipped. It adds this site to the worker if it is
// missing.
func (w *worker) nameSkips(t *Track) {
	for i := range t.Spans {
		if t.Spans[i].Site != skippedSite {
			continue
		}
		if last := w.Sites[len(w.Sites)-1]; last.Op != Skipped {
			w.Sites = append(w.Sites, Site{Op: Skipped, Name: "skipped", Cause: Unrecorded})
		}
		t.Spans[i].Site = len(w.Sites) - 1
	}
}

// partialWorkers returns a problem for each worker that recorded only a part of its events.
func (a *Attempt) partialWorkers() (problems []string) {
	for i := range a.Workers {
		w := &a.Workers[i]
		if last := len(w.Sites) - 1; last >= 0 && w.Sites[last].Op == Skipped {
			problems = append(problems, fmt.Sprintf("%s %d on rank %d had too many spans: only a part of them was "+
				"recorded", w.Component, w.Member, w.Rank))
		}
	}
	return problems
}
