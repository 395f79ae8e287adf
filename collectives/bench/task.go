package bench

import (
	"context"

	"github.com/rlinf/rlinf/collectives/bench/report"
)

// A Task is work that all ranks do at the same time, each rank on its own.
type Task struct {
	Op   string
	Size int64
	// Call does Units of work on this rank.
	Call  func(ctx context.Context, i int) error
	Units float64
}

// Task measures t. finish gets rates, each rank's own units per second. Task is collective over the
// world.
func (r *Run) Task(ctx context.Context, t Task, finish func(row *report.Row, rates []float64)) error {
	return r.measure(ctx, r.all, false, func() ([]*arm, func(), error) {
		a := &arm{call: t.Call}
		a.row.Op, a.row.Ranks, a.row.Size = t.Op, r.all.size(), t.Size
		return []*arm{a}, func() { finish(&a.row, a.rates(t.Units)) }, nil
	})
}

// Record adds a row that was measured elsewhere, and a note unless it is empty. Only the calls on
// rank 0 have an effect.
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
