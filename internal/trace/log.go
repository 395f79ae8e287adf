package trace

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
)

// Folder is the folder of the trace inside a run's folder.
const Folder = "trace"

// Options describe the rank that a Log records, and how the Log records it.
type Options struct {
	Run         string // the run's folder
	Attempt     int64  // see Attempt.ID; the same on all ranks
	Rank, Ranks int
	Node        int
	Host        string
	All         bool         // keep the spans of all iterations
	Clock       func() int64 // in nanoseconds; nil means Clock()
}

// A Log records the workers of one rank. It keeps the spans of the first iterations, of the first iterations after a
// move, of every 50th iteration, and of the slowest iteration of each 100. At an error or a signal it also keeps the
// last iterations.
//
//	log := trace.NewLog(options)
//	rec := log.Recorder("env", 0)           // for each worker, before it works
//	log.Start()                             // the first iteration begins
//	…
//	log.Cut(1)                              // iteration 1 has ended
//	err := log.Write()                      // writes what is due
//	err = log.Flush(true)                   // at an error or a signal
//
// A nil Log records nothing.
type Log struct {
	o       Options
	mu      sync.Mutex
	workers []*Recorder
	tally   tally
	first   int64         // the first iteration of this attempt; 0 until it has ended
	newest  int64         // the last iteration that has ended
	held    int64         // the slowest iteration of the present hundred; 0 if there is none
	offset  Offset        // set on the first rank of a node; elsewhere its Bound is -1
	sent    func() []Sent // see Count
	buf     []byte        // buffer of the last chunk, for reuse
	broken  error         // the first error of a write
}

// An Offset compares the clock of a node with the clock of rank 0's node. Ahead is the node's clock minus the clock of
// rank 0's node, in nanoseconds. Bound is the largest error of Ahead, in nanoseconds.
type Offset struct{ Ahead, Bound int64 }

const (
	firstKept  = 3  // the number of first iterations whose spans are kept
	everyKept  = 50 // the spans of every 50th iteration are kept
	hundred    = 100
	ranksApart = 64 // in worlds of up to this size, each rank has its own file
)

// NewLog returns the log of a rank.
func NewLog(o Options) *Log {
	if o.Clock == nil {
		o.Clock = Clock()
	}
	return &Log{o: o, offset: Offset{Bound: -1}}
}

// Recorder returns a new recorder for a worker of this rank.
func (l *Log) Recorder(component string, member int) *Recorder {
	r := newRecorder(l.o.Clock, &l.tally, component, member)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers = append(l.workers, r)
	return r
}

// Count makes the log also write the numbers of messages that this rank has sent to each rank so far. The log calls
// counts to get them, from any goroutine.
func (l *Log) Count(counts func() []Sent) { l.sent = counts }

// Start begins the first iteration of all workers now.
func (l *Log) Start() { l.Cut(0) }

// Cut ends an iteration of all workers now, and begins the next iteration.
func (l *Log) Cut(iteration int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.o.Clock()
	for _, r := range l.workers {
		r.cut(iteration, at)
	}
	l.tally.cut(at)
	l.newest = iteration
	l.first = cmp.Or(l.first, iteration)
}

// Hold keeps the spans of an iteration, because it is the slowest of its hundred so far. A newer iteration must have
// ended already.
func (l *Log) Hold(iteration int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.workers {
		r.hold(iteration)
	}
	l.held = iteration
}

// ComparesClocks reports whether nodes compare their clocks after an iteration.
func (l *Log) ComparesClocks(iteration int64) bool { return l != nil && iteration%everyKept == 0 }

// reason returns why the spans of an iteration are kept at its end, or "" if they are not.
func (l *Log) reason(iteration int64) Reason {
	switch {
	case l.o.All:
		return All
	case iteration < l.first+firstKept:
		return First
	case iteration%everyKept == 0:
		return Regular
	}
	return ""
}

// Write writes the spans that are due at the end of the newest iteration, with all sums so far. If no spans are due, it
// writes nothing. After its first error it does nothing.
func (l *Log) Write() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.newest == 0 {
		return nil
	}
	var due []window
	if (l.newest-1)%hundred == 0 { // all ranks know the slowest iteration of the hundred
		due = l.release(due)
	}
	if why := l.reason(l.newest); why != "" {
		due = append(due, window{l.newest, why})
	}
	if len(due) == 0 {
		return nil
	}
	return l.write(due)
}

// Flush writes the sums of all iterations that have ended. If final is true, it also writes the spans of the last
// iterations and of the unfinished iteration, and ends the recording. Any goroutine may call Flush.
func (l *Log) Flush(final bool) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == 0 && !final {
		return nil
	}
	due := l.release(nil)
	if final {
		at := l.o.Clock()
		for _, r := range l.workers {
			r.finish(l.newest+1, at)
		}
		for n := max(l.newest-1, 1); n <= l.newest+1; n++ {
			due = append(due, window{n, Last})
		}
	}
	return l.write(due)
}

// release adds the slowest iteration of the last hundred to the windows that are due.
func (l *Log) release(due []window) []window {
	if l.held > 0 {
		due = append(due, window{l.held, Slowest})
		l.held = 0
	}
	return due
}

// A window is an iteration whose spans are to be written.
type window struct {
	iteration int64
	why       Reason
}

func (l *Log) write(due []window) error {
	if l.broken != nil {
		for _, r := range l.workers {
			r.forget()
		}
		return nil
	}
	b := appendHeader(l.buf[:0], chunkOfRank, &l.o)
	b = appendInt(appendInt(b, l.offset.Ahead), l.offset.Bound)
	b = appendCount(b, len(l.workers))
	for _, r := range l.workers {
		r.mu.Lock()
		defer r.mu.Unlock() // held until the chunk is complete, so that its parts are consistent
		b = r.appendWorker(b)
	}
	b = appendCount(b, len(due))
	for _, w := range due {
		b = appendString(appendInt(b, w.iteration), string(w.why))
		for _, r := range l.workers {
			b = r.appendTrack(b, w.iteration)
		}
	}
	b = finishChunk(b)
	if l.sent != nil {
		b = append(b, l.sentChunk()...)
	}
	l.buf = b
	l.broken = l.append(b)
	return l.broken
}

// sentChunk returns a chunk with the numbers of messages that this rank has sent.
func (l *Log) sentChunk() []byte {
	all := l.sent()
	b := appendCount(appendHeader(nil, chunkSent, &l.o), len(all))
	for _, s := range all {
		b = appendInt(appendInt(appendCount(b, s.To), s.Messages), s.Bytes)
	}
	return finishChunk(b)
}

// append appends chunks to the rank's file in one write, so that the ranks of a node can share the file.
func (l *Log) append(chunks []byte) error {
	f, err := openToAppend(l.File())
	if err == nil {
		_, err = f.Write(chunks)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	return nil
}

// File returns the path of the file with this rank's trace. In large worlds, the ranks of a node share a file.
func (l *Log) File() string {
	name := FileOfRank(l.o.Rank)
	if l.o.Ranks > ranksApart {
		name = fmt.Sprintf("node-%04d.bin", l.o.Node)
	}
	return filepath.Join(l.o.Run, Folder, name)
}

// FileOfRank returns the file name of a rank that has its own file.
func FileOfRank(rank int) string { return fmt.Sprintf("rank-%04d.bin", rank) }

// openToAppend opens a file of the trace. It makes the file and its folder if they are missing.
func openToAppend(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
	if !os.IsNotExist(err) {
		return f, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return nil, err
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o666)
}

// Shift sets the offset of this node's clock, for later writes. The first rank of a node calls it.
func (l *Log) Shift(o Offset) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.offset = o
}

// Now returns the time of the log's clock.
func (l *Log) Now() int64 { return l.o.Clock() }

// Shares returns how this rank's workers spent the last iteration: the share of each cause, in the order of Causes.
// Idle time counts only while all workers of the rank are idle, because a worker that waits for its turn lets others
// work. Shares reuses the memory of buf.
func (l *Log) Shares(buf []float64) []float64 {
	buf = append(buf[:0], make([]float64, len(Causes))...)
	if l == nil {
		return buf[:0]
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	whole, active := 0.0, 0.0 // the longest time of a worker, and the times of all without idleness
	for _, r := range l.workers {
		if r.component == Runner {
			continue
		}
		all := 0.0
		r.mu.Lock()
		for i, t := range r.before {
			cause := r.sites[i].Cause
			if all += float64(t); cause != Idling {
				buf[slices.Index(Causes, cause)] += float64(t)
				active += float64(t)
			}
		}
		r.mu.Unlock()
		whole = max(whole, all)
	}
	idle := max(whole-active, 0) // exact if workers take turns, and otherwise the minimum
	buf[slices.Index(Causes, Idling)] = idle
	for i := range buf {
		buf[i] /= max(active+idle, 1)
	}
	return buf
}

// Worked returns the seconds that this rank's workers of a component spent on the named work in the last iteration. If
// several workers of the rank work at the same time, their common time is divided among them, as if they shared a core.
func (l *Log) Worked(component, name string) (seconds float64) {
	if l == nil {
		return 0
	}
	return l.tally.seconds(workKind{component, name})
}

// Queued calls f for each site at which this rank puts items into a channel or gets items from it. At a Put, items is
// the number of items put so far. At a Get, items is minus the number of items got so far.
func (l *Log) Queued(f func(channel string, items int64)) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.workers {
		r.mu.Lock()
		for i, s := range r.sites {
			switch s.Op {
			case Put:
				f(s.Name, r.count[i])
			case Get:
				f(s.Name, -r.count[i])
			}
		}
		r.mu.Unlock()
	}
}
