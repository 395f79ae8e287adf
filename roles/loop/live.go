package loop

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/trace"
)

// A board has the contents of live.json, the state of the running job. The loop of rank 0 changes the board, and a
// goroutine writes it to the file each second.
type board struct {
	path string
	stop func()

	mu     sync.Mutex
	step   int64
	work   string
	phases [len(Phases)]float64
	timed  [len(Phases)]time.Time // when the newest time of each phase arrived
	envs   float64                // seconds of simulators, a part of the phases
	waits  [][]float64            // for each rank, the fractions of its time by cause: see RankReport.Waits
	queues map[string]int64       // number of items in each channel
	at     time.Time              // when the newest reports arrived
}

// Simulate is the name of the simulators' time, in addition to the names in Phases. This time is a part of the phases.
const Simulate = "simulate"

// newBoard returns a board that writes to path until close is called.
func newBoard(path string) *board {
	b := &board{path: path, queues: map[string]int64{}}
	b.stop = sync.OnceFunc(metrics.Every(time.Second, b.write))
	return b
}

// change calls f under the lock, so that f can change the board. A nil board does nothing.
func (b *board) change(f func()) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// begin sets the name of the present work.
func (b *board) begin(work string) { b.change(func() { b.work = work }) }

// nextStep prepares the board for the reports of a step.
func (b *board) nextStep(step int64, ranks int) {
	b.change(func() {
		b.step, b.at = step, time.Now()
		for len(b.waits) < ranks {
			b.waits = append(b.waits, nil)
		}
		for name := range b.queues {
			b.queues[name] = 0
		}
	})
}

// add adds the report of a rank.
func (b *board) add(rank int, r *RankReport) {
	b.change(func() {
		b.waits[rank] = append(b.waits[rank][:0], r.Waits...)
		for i, name := range r.queueNames {
			b.queues[name] += int64(r.queueItems[i])
		}
	})
}

// setTimes sets the times of phases. longest has the time of the slowest rank for each phase.
// simulated has the time of simulators on the rank where they took longest.
func (b *board) setTimes(longest [len(Phases)]float64, simulated float64) {
	b.change(func() {
		b.envs = simulated
		for p, t := range longest {
			if t > 0 {
				b.phases[p], b.timed[p] = t, b.at
			}
		}
	})
}

// write writes the board to its file. It ignores errors, because the next call tries again.
func (b *board) write() {
	b.mu.Lock()
	l := trace.Live{Time: time.Now(), Step: b.step, Work: b.work}
	for p, at := range b.timed {
		if !at.IsZero() {
			l.Phases = append(l.Phases, trace.Timing{Phase: Phases[p], Seconds: b.phases[p], At: at})
		}
	}
	if b.envs > 0 {
		l.Phases = append(l.Phases, trace.Timing{Phase: Simulate, Seconds: b.envs, At: b.at})
	}
	for rank, shares := range b.waits {
		w := trace.Waiting{Rank: rank, Waits: map[trace.Cause]float64{}, At: b.at}
		for i, share := range shares {
			if cause := trace.Causes[i]; cause.IsWait() && share > 0 {
				w.Waits[cause] = share
			}
		}
		l.Ranks = append(l.Ranks, w)
	}
	for _, name := range slices.Sorted(maps.Keys(b.queues)) {
		l.Queues = append(l.Queues, trace.Queue{Channel: name, Items: b.queues[name], At: b.at})
	}
	b.mu.Unlock()
	_ = l.Write(b.path)
}

// close writes the board for the last time.
func (b *board) close() {
	if b != nil {
		b.stop()
		b.write()
	}
}
