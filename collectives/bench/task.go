package bench

import (
	"context"
	"time"

	"github.com/rlinf/rlinf/collectives/bench/report"
)

// A Task is work that all ranks do at the same time, each for itself.
type Task struct {
	Op   string
	Size int64
	// Call does Units of work on this rank.
	Call  func(ctx context.Context, i int) error
	Units float64
}

// Columns writes the header of a report whose rows are those of Tasks: what keys and figures they
// have, see report.Report. Once, before the first.
func (r *Run) Columns(method string, keys, figures []string) error {
	return r.begin(method, keys, figures)
}

// Task measures t. rates, which finish gets, are each rank's own units per second. Collective over
// the world.
func (r *Run) Task(ctx context.Context, t Task, finish func(row *report.Row, rates []float64)) error {
	if r.stopped {
		return nil
	}
	var took time.Duration
	calls := 0
	a := &arm{call: func(ctx context.Context, i int) error {
		start := time.Now()
		err := t.Call(ctx, i)
		took += time.Since(start)
		calls++
		return err
	}}
	a.row.Op, a.row.Ranks, a.row.Size = t.Op, r.all.size(), t.Size
	stopped, err := r.sched.run(ctx, r.all, []*arm{a})
	if err != nil {
		return err
	}
	r.stopped = stopped
	rates := make([]float64, r.all.size())
	rates[r.all.rank()] = t.Units * float64(calls) / took.Seconds()
	if err := r.all.max(ctx, rates); err != nil {
		return err
	}
	finish(&a.row, rates)
	return r.add([]report.Row{a.row})
}

// Record adds a row that was measured elsewhere, and a note unless that is empty; rank 0's count.
func (r *Run) Record(row report.Row, note string) error {
	if note != "" {
		r.note("%s", note)
	}
	return r.add([]report.Row{row})
}

// Interrupted reports whether this rank was asked to stop, which ends the run.
func (r *Run) Interrupted() bool {
	r.stopped = r.stopped || r.opts.Stop()
	return r.stopped
}
