package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// chromeHead begins the files of WriteChrome.
const chromeHead = `{"displayTimeUnit":"ms","otherData":{"problems":`

// IsChrome reports whether WriteChrome wrote the file that begins with head.
func IsChrome(head []byte) bool { return bytes.HasPrefix(head, []byte(chromeHead)) }

// WriteChrome writes the windows of t in Chrome's Trace Event Format (JSON), which Perfetto and chrome://tracing show.
//
//   - Each rank is a process, and each worker is a thread. The threads of a rank are numbered from 0.
//   - Each Span that is not Idle is a slice. Slices of a thread do not overlap. Each window is a slice that encloses
//     the runner's spans.
//   - Each Mark is an instant. A flow leads from the Put of an item to its Get.
//
// Times are microseconds since the first span. Attempts are written one second apart, because times of different
// attempts cannot be compared.
func WriteChrome(w io.Writer, t *Trace) error {
	c := &chrome{out: bufio.NewWriterSize(w, 64<<10), threads: map[thread]int{}}
	if t == nil {
		t = &Trace{}
	}
	problems, err := json.Marshal(append([]string{}, t.Problems...)) // [], not null
	if err != nil {
		return err
	}
	fmt.Fprintf(c.out, chromeHead+`%s},"traceEvents":[`, problems)
	for i := range t.Attempts {
		c.writeNames(&t.Attempts[i])
	}
	for i := range t.Attempts {
		c.writeAttempt(&t.Attempts[i], i+1)
	}
	c.out.WriteString("\n]}\n")
	if err := c.out.Flush(); err != nil { // the first error of all writes
		return fmt.Errorf("trace: %w", err)
	}
	return nil
}

// betweenAttempts is the time between the last span of an attempt and the first span of the next, in nanoseconds.
const betweenAttempts = int64(time.Second)

// A thread is a worker of any attempt.
type thread struct {
	rank      int
	component string
	member    int
}

// A chrome writes events in Chrome's format.
type chrome struct {
	out     *bufio.Writer
	event   []byte
	events  int
	threads map[thread]int // the tid: the number of each thread on its rank
	ends    []int64        // end of the last slice of each worker of the present attempt
	shift   int64          // written time minus the time in the present attempt
	last    int64          // the latest written time
	flows   int64          // flows written
}

// writeNames writes the names of the ranks and workers that are new in this attempt.
func (c *chrome) writeNames(a *Attempt) {
	used := map[int]int{} // threads of each rank
	for t := range c.threads {
		used[t.rank]++
	}
	for i := range a.Workers {
		w := &a.Workers[i]
		t := thread{w.Rank, w.Component, w.Member}
		if _, known := c.threads[t]; known {
			continue
		}
		c.threads[t] = used[w.Rank]
		if used[w.Rank] == 0 {
			title := "rank " + strconv.Itoa(w.Rank)
			if w.Node >= 0 && w.Node < len(a.Hosts) && a.Hosts[w.Node] != "" {
				title += " (" + a.Hosts[w.Node] + ")"
			}
			c.writeMeta("process_name", w.Rank, 0, "name", quote(title))
			c.writeMeta("process_sort_index", w.Rank, 0, "sort_index", strconv.Itoa(w.Rank))
		}
		used[w.Rank]++
		title := w.Component + " " + strconv.Itoa(w.Member)
		if w.Component == Runner { // each rank has one runner
			title = Runner
		}
		c.writeMeta("thread_name", w.Rank, c.threads[t], "name", quote(title))
		c.writeMeta("thread_sort_index", w.Rank, c.threads[t], "sort_index", strconv.Itoa(c.threads[t]))
	}
}

// writeMeta writes an event that describes a rank or a worker.
func (c *chrome) writeMeta(kind string, pid, tid int, key, value string) {
	c.begin("M", quote(kind), pid, tid)
	c.text(`,"args":{"` + key + `":` + value + `}`)
	c.end()
}

// writeAttempt writes the windows of the n-th attempt.
func (c *chrome) writeAttempt(a *Attempt, n int) {
	first, ok := a.first()
	if !ok {
		return
	}
	begin := int64(0)
	if c.last > 0 {
		begin = c.last + betweenAttempts
	}
	c.shift = begin - first
	c.ends = make([]int64, len(a.Workers))
	for i := range c.ends {
		c.ends[i] = begin
	}
	if n > 1 {
		started := time.Unix(0, a.ID).UTC().Format(time.RFC3339)
		c.begin("i", quote(fmt.Sprintf("attempt %d, started %s", n, started)), 0, 0)
		c.at(begin)
		c.text(`,"s":"g"`)
		c.end()
	}
	labels := make([][]label, len(a.Workers))
	for i := range a.Workers {
		labels[i] = labelsOf(&a.Workers[i])
	}
	for i := range a.Windows {
		w := &a.Windows[i]
		for j := range w.Tracks {
			if at := w.Tracks[j].Worker; at >= 0 && at < len(a.Workers) {
				c.writeTrack(a, w, &w.Tracks[j], labels[at], n)
			}
		}
		c.writeFlows(a, w)
	}
}

// first returns the time of the first span or mark. ok is false if there is none.
func (a *Attempt) first() (first int64, ok bool) {
	first = math.MaxInt64
	for _, w := range a.Windows {
		for _, t := range w.Tracks {
			for _, s := range t.Spans {
				first, ok = min(first, s.Start), true
			}
			for _, m := range t.Marks {
				first, ok = min(first, m.At), true
			}
		}
	}
	return first, ok
}

// A label is the part that all events of a site share.
type label struct {
	name, args string // in JSON
	peer       string // the component at the other end, if Arg is the number of its member
	arg        string // the name of Arg in the event; "" if Arg is not written
}

// labelsOf returns the labels of the sites of a worker.
func labelsOf(w *Lane) []label {
	labels := make([]label, len(w.Sites))
	for i, s := range w.Sites {
		l := &labels[i]
		name := s.Name
		switch s.Op {
		case Work, Call, Skipped:
		case Get, Receive:
			name, l.arg, l.peer = "wait for "+s.Name, "peer", s.Peer
		case Room:
			name, l.arg, l.peer = "wait for room in "+s.Name, "peer", s.Peer
		case Await:
			name = "wait for " + s.Peer + "." + s.Name
		case Vote:
			name = "vote"
		case Put:
			name, l.arg, l.peer = "put "+s.Name, "peer", s.Peer
		case Publish:
			name, l.arg = "publish "+s.Name, "version"
		case Adopt:
			name, l.arg = "adopt "+s.Name, "version"
		}
		if name == "" {
			name = string(s.Cause)
		}
		l.name = quote(name)
		l.args = `,"cat":` + quote(category(s)) + `,"args":{`
		if s.Cause != "" {
			l.args += `"cause":` + quote(string(s.Cause)) + `,`
		}
		if s.Key != "" {
			l.args += `"key":` + quote(s.Key) + `,`
		}
	}
	return labels
}

// category returns the category of a site. Viewers filter by categories.
func category(s Site) string {
	switch {
	case s.Op == Put:
		return "put"
	case s.Cause.IsWait():
		return "wait"
	}
	return string(s.Cause)
}

// writeTrack writes the spans and marks of a worker in a window.
func (c *chrome) writeTrack(a *Attempt, w *Window, t *Track, labels []label, attempt int) {
	worker := &a.Workers[t.Worker]
	pid, tid := worker.Rank, c.threads[thread{worker.Rank, worker.Component, worker.Member}]
	end := &c.ends[t.Worker]
	if len(t.Spans) > 0 && worker.Component == Runner {
		from, to := max(c.time(t.Spans[0].Start), *end), *end
		for _, s := range t.Spans {
			to = max(to, c.time(s.End))
		}
		if from < to {
			c.begin("X", quote("iteration "+strconv.FormatInt(w.Iteration, 10)), pid, tid)
			c.span(from, to)
			c.number(`,"cat":"iteration","args":{"kept":`+quote(string(w.Why))+`,"attempt":`, int64(attempt))
			if w.Bound > 0 {
				c.micros(`,"largest_clock_error_us":`, w.Bound)
			}
			c.text("}")
			c.end()
		}
	}
	for i := range t.Spans {
		s := &t.Spans[i]
		if s.Site < 0 || s.Site >= len(labels) {
			continue
		}
		from, to := max(c.time(s.Start), *end), c.time(s.End)
		if from > to || from == to && s.Start < s.End { // it overlaps the previous span: the clock offset changed
			continue
		}
		*end = to
		if worker.Sites[s.Site].Op == Idle || from == to {
			continue
		}
		c.begin("X", labels[s.Site].name, pid, tid)
		c.span(from, to)
		c.writeArgs(&labels[s.Site], w.Iteration, s.Arg)
		c.end()
	}
	for _, m := range t.Marks {
		if m.Site < 0 || m.Site >= len(labels) {
			continue
		}
		c.begin("i", labels[m.Site].name, pid, tid)
		c.at(max(c.time(m.At), 0))
		c.text(`,"s":"t"`)
		c.writeArgs(&labels[m.Site], w.Iteration, m.Arg)
		c.end()
	}
}

// writeArgs writes the arguments of a span or a mark.
func (c *chrome) writeArgs(l *label, iteration, arg int64) {
	c.text(l.args)
	c.number(`"iteration":`, iteration)
	switch {
	case l.arg == "peer" && arg >= 0:
		c.text(`,"peer":` + quote(l.peer+" "+strconv.FormatInt(arg, 10)))
	case l.arg == "peer":
		c.text(`,"peer":` + quote(l.peer))
	case l.arg != "":
		c.number(`,"`+l.arg+`":`, arg)
	}
	c.text("}")
}

// An item identifies a channel's item by its producer. n is the Mark.N of its Put.
type item struct {
	channel, key, component string
	member, n               int64
}

// writeFlows writes a flow for each item that was put and got in a window.
func (c *chrome) writeFlows(a *Attempt, w *Window) {
	type get struct {
		worker *Lane
		span   *Span // the last piece of the Get
	}
	gets := map[item]get{}
	for i := range w.Tracks {
		t := &w.Tracks[i]
		worker := a.worker(t.Worker)
		for j := range t.Spans {
			g := &t.Spans[j]
			s := worker.site(g.Site)
			if s.Op != Get || g.Start >= g.End {
				continue
			}
			k := item{s.Name, s.Key, s.Peer, g.Arg, g.Item}
			// If N differs, the later Get has not ended in this window, so its Item is not set.
			if old, ok := gets[k]; !ok || old.span.N == g.N {
				gets[k] = get{worker, g}
			}
		}
	}
	for i := range w.Tracks {
		t := &w.Tracks[i]
		worker := a.worker(t.Worker)
		for _, m := range t.Marks {
			s := worker.site(m.Site)
			g, ok := gets[item{s.Name, s.Key, worker.Component, int64(worker.Member), m.N}]
			if ok && s.Op == Put && m.At < g.span.End {
				c.flows++
				c.writeFlow("s", worker, c.time(m.At))
				c.writeFlow("f", g.worker, c.time(g.span.End)-1)
			}
		}
	}
}

// worker returns the worker at an index, or an empty Lane if the index is out of range.
func (a *Attempt) worker(i int) *Lane {
	if i < 0 || i >= len(a.Workers) {
		return &Lane{}
	}
	return &a.Workers[i]
}

// site returns the site at an index, or an empty Site if the index is out of range.
func (w *Lane) site(i int) *Site {
	if i < 0 || i >= len(w.Sites) {
		return &Site{}
	}
	return &w.Sites[i]
}

// writeFlow writes the event that begins or ends the newest flow. Viewers attach the event to the slice that worker w
// has at this time.
func (c *chrome) writeFlow(phase string, w *Lane, at int64) {
	c.begin(phase, `"item"`, w.Rank, c.threads[thread{w.Rank, w.Component, w.Member}])
	c.at(max(at, 0))
	c.number(`,"cat":"item","bp":"e","id":`, c.flows)
	c.end()
}

// time converts a time of the present attempt to a written time.
func (c *chrome) time(at int64) int64 { return at + c.shift }

// begin begins an event. name is JSON.
func (c *chrome) begin(phase, name string, pid, tid int) {
	c.event = append(c.event[:0], '\n')
	if c.events > 0 {
		c.event = append(c.event[:0], ",\n"...)
	}
	c.number(`{"ph":"`+phase+`","name":`+name+`,"pid":`, int64(pid))
	c.number(`,"tid":`, int64(tid))
}

// text adds JSON to the event.
func (c *chrome) text(json string) { c.event = append(c.event, json...) }

// number adds JSON and a number to the event.
func (c *chrome) number(json string, n int64) {
	c.event = strconv.AppendInt(append(c.event, json...), n, 10)
}

// micros adds JSON, and ns nanoseconds as microseconds, to the event. ns is at least 0.
func (c *chrome) micros(json string, ns int64) {
	c.number(json, ns/1000)
	if rest := ns % 1000; rest > 0 {
		c.event = append(c.event, '.', byte('0'+rest/100), byte('0'+rest/10%10), byte('0'+rest%10))
	}
}

func (c *chrome) at(at int64) {
	c.micros(`,"ts":`, at)
	c.last = max(c.last, at)
}

func (c *chrome) span(from, to int64) {
	c.at(from)
	c.micros(`,"dur":`, to-from)
	c.last = max(c.last, to)
}

// end writes the event.
func (c *chrome) end() {
	c.text("}")
	c.out.Write(c.event) // Flush returns the error
	c.events++
}

// quote returns text as JSON.
func quote(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // every string can be encoded
	}
	return string(b)
}
