package sweep

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/printable"
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/internal/runfolder"
)

// A board shows the progress of a sweep in one line: the active runs, the best run so far and the time left. On a
// terminal the line stays below the printed lines. Elsewhere the board prints the line at intervals. A board is safe
// for concurrent use.
type board struct {
	out    io.Writer
	live   bool
	width  func() int // width of the terminal
	now    func() time.Time
	metric string
	mode   string // results.ModeMin or ModeMax
	total  int    // number of runs

	mu      sync.Mutex
	closed  bool
	done    int
	failed  int
	began   map[*sweepRun]time.Time // start times of the active runs
	took    time.Duration           // total time of the runs that were trained since this start of the sweep
	trained int                     // number of these runs
	best    float64                 // the best value of the metric; NaN if there is none
	bestRun string
}

func newBoard(out io.Writer, live bool, width func() int, metric, mode string, total int) *board {
	return &board{out: out, live: live, width: width, now: time.Now, metric: metric, mode: mode, total: total,
		began: map[*sweepRun]time.Time{}, best: math.NaN()}
}

// begin adds an active run.
func (b *board) begin(r *sweepRun) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.began[r] = b.now()
}

// finished adds a finished run, with the value of its metric and its duration, and returns the number of finished runs.
// The duration is 0 if an earlier start of the sweep finished the run.
func (b *board) finished(r *sweepRun, value float64, duration time.Duration) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.began, r)
	b.done++
	if duration > 0 {
		b.took += duration
		b.trained++
	}
	if results.Better(b.mode, value, b.best) {
		b.best, b.bestRun = value, r.name()
	}
	return b.done
}

// ended removes an active run that stopped before its end. A run that failed is not repeated.
func (b *board) ended(r *sweepRun, failed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.began, r)
	if failed {
		b.failed++
	}
}

// print prints a line, above the progress line.
func (b *board) print(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clear()
	io.WriteString(b.out, printable.Lines(fmt.Sprintf(format, args...)))
	if b.live {
		b.show()
	}
}

// tick updates the progress line.
func (b *board) tick() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.clear()
		b.show()
	}
}

// close removes the progress line.
func (b *board) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.clear()
	b.live, b.closed = false, true
}

func (b *board) clear() {
	if b.live {
		io.WriteString(b.out, "\r\x1b[K")
	}
}

func (b *board) show() {
	if b.live {
		io.WriteString(b.out, metrics.Cut(printable.Line(b.line()), b.width()-metrics.Echo))
	} else {
		io.WriteString(b.out, printable.Line(b.line())+"\n")
	}
}

// line returns the progress line. A narrow terminal may cut off its end.
func (b *board) line() string {
	parts := []string{fmt.Sprintf("%d of %d done", b.done, b.total)}
	if b.failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", b.failed))
	}
	if !math.IsNaN(b.best) {
		parts = append(parts, fmt.Sprintf("best %s %.4g (%s)", b.metric, b.best, b.bestRun))
	}
	if left := b.remaining(); left > 0 {
		parts = append(parts, "ETA "+metrics.Clock(left))
	}
	var under []string
	for r := range b.began {
		under = append(under, r.name()+" "+r.progress())
	}
	slices.Sort(under)
	if len(under) > 0 {
		parts = append(parts, "under way: "+strings.Join(under, ", "))
	}
	return strings.Join(parts, " · ")
}

// remaining estimates how long the sweep will still take, from the durations of finished runs. Until a run has
// finished, it uses the progress of the active runs. It returns 0 if the time is unknown.
func (b *board) remaining() time.Duration {
	if len(b.began) == 0 {
		return 0
	}
	now := b.now()
	var each time.Duration
	if b.trained > 0 {
		each = b.took / time.Duration(b.trained)
	} else {
		for r, began := range b.began {
			if part := r.part(); part > 0 {
				each = max(each, time.Duration(float64(now.Sub(began))/part))
			}
		}
	}
	if each == 0 {
		return 0
	}
	left := each * time.Duration(b.total-b.done-b.failed-len(b.began))
	for _, began := range b.began {
		left += max(each-now.Sub(began), 0)
	}
	return left / time.Duration(len(b.began))
}

// step returns the newest step in the metrics of the run; 0 if it has none.
func (r *sweepRun) step() int64 {
	step, _ := metrics.LastStep(filepath.Join(r.cfg.Folder(), "metrics.jsonl"))
	return step
}

// most returns the number of steps of the run, as its start recorded it; 0 if it is unknown.
func (r *sweepRun) most() int64 {
	start, _ := runfolder.LastStart(r.cfg.Folder())
	return start.Iterations
}

// progress returns the step of the run, such as "12/100", or "12" if the number of steps is unknown.
func (r *sweepRun) progress() string {
	if most := r.most(); most > 0 {
		return fmt.Sprintf("%d/%d", r.step(), most)
	}
	return fmt.Sprint(r.step())
}

// part returns the finished fraction of the run, from 0 to 1. It returns 0 if the fraction is unknown.
func (r *sweepRun) part() float64 { return float64(r.step()) / float64(max(r.most(), 1)) }
