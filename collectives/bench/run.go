package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/collectives/bench/stats"
	"github.com/rlinf/rlinf/spmd"
)

// Options say how a Run measures. They are the same on every rank, except for Writers and About, which
// only rank 0 uses.
type Options struct {
	Rule stats.StopRule
	// Warmup is the number of calls before the first sample. If it is negative, the number is MinSamples/10, at least
	// 10 and at most 1000, or fewer if the calls are slow.
	Warmup int
	// Stop is called about every 30 ms. Once it returns true on any rank, the run ends and keeps its samples.
	Stop func() bool
	// Writers get the header, each row and the end.
	Writers []*report.Writer
	// Cache is the size of the last-level cache in bytes. 0 means the size that the system reports.
	Cache int64
	// Free is the available memory of this rank's host in bytes, or 0 if it is not known. Hosts may differ.
	Free int64
	// About holds what the caller fills in: Bench, and the fields of Machine about the program and its arguments.
	About report.Report
}

// A Run is one benchmark on one rank.
type Run struct {
	w         *spmd.World
	opts      Options
	reports   *collectives.Group // exchanges the places of all ranks, and sends rows to rank 0
	all       *team
	sched     schedule
	processes []int // processes[r] is the lowest rank in the process of rank r
	budget    budget
	rep       report.Report
	open      bool // the header is written
	stopped   bool
}

// Begin surveys the machine and returns the Run. It is collective over the world.
func Begin(ctx context.Context, w *spmd.World, opts Options) (*Run, error) {
	r := &Run{w: w, opts: opts, rep: opts.About}
	everyone := w.Ranks()
	ends, err := w.NewComm(everyone, "bench reports")
	if err != nil {
		return nil, err
	}
	// "direct" allocates nothing. Other algorithms would allocate communication memory on rank 0 alone, and so shift
	// the addresses of its buffers.
	if r.reports, err = collectives.New(w, ends[0], collectives.Options{Algorithm: "direct"}); err != nil {
		return nil, err
	}
	if err := r.survey(ctx); err != nil {
		return nil, fmt.Errorf("survey of the machine: %w", err)
	}
	if r.all, err = r.newTeam(everyone, "bench"); err != nil {
		return nil, err
	}
	r.sched = schedule{rule: opts.Rule, warmup: opts.Warmup, step: time.Duration(r.rep.Machine.ClockStep),
		stop: opts.Stop}
	r.rep.Schema, r.rep.Started = report.Schema, time.Now().Round(time.Second)
	return r, r.measureRoof(ctx)
}

// newTeam makes a team of the given ranks. It is collective over these ranks.
func (r *Run) newTeam(ranks []int, label string) (*team, error) {
	t := &team{lead: ranks[0]}
	if !slices.Contains(ranks, r.w.Rank()) {
		return t, nil
	}
	ends, err := r.w.NewComm(ranks, label)
	if err != nil {
		return nil, err
	}
	mates := 0
	for _, rank := range ranks {
		if r.processes[rank] == r.processes[r.w.Rank()] {
			mates++
		}
	}
	t.Comm, t.share = ends[0], 1/float64(mates)
	return t, nil
}

// Columns sets the method, keys and figures of the report (see report.Report), and writes its header. It is called
// once, before the first row.
func (r *Run) Columns(method string, keys, figures []string) error {
	r.rep.Method, r.rep.Keys, r.rep.Figures = method, keys, figures
	r.open = true
	return r.write((*report.Writer).Update)
}

// write calls f for each writer, on rank 0 only.
func (r *Run) write(f func(*report.Writer, *report.Report) error) error {
	if r.w.Rank() != 0 {
		return nil
	}
	for _, w := range r.opts.Writers {
		if err := f(w, &r.rep); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return nil
}

// measure samples arms on a team, and sends their rows to rank 0. It calls prepare on each member, which returns the
// arms and a function finish that adds figures to their rows. The argument together is explained at schedule.run. If
// the run was stopped before, measure does nothing. It is collective over the world.
func (r *Run) measure(ctx context.Context, t *team, together bool,
	prepare func() (arms []*arm, finish func(), err error)) error {
	if r.stopped {
		return nil
	}
	var rows []report.Measurement
	stop := false
	if t.member() {
		arms, finish, err := prepare()
		if err != nil {
			return err
		}
		if len(arms) > 0 {
			stop, err = r.sched.run(ctx, t, arms, together)
			finish()
		}
		for _, a := range arms {
			if !a.hidden {
				rows = append(rows, a.row)
			}
		}
		if err != nil { // keep the samples so far
			return errors.Join(err, r.add(rows))
		}
	} else {
		stop = r.opts.Stop()
	}
	if t.lead != 0 {
		var err error
		if rows, err = r.deliver(ctx, t.lead, rows); err != nil {
			return err
		}
	}
	stopped := []float64{0}
	if stop {
		stopped[0] = 1
	}
	if err := r.all.max(ctx, stopped); err != nil {
		return err
	}
	r.stopped = stopped[0] != 0
	return r.add(rows)
}

// A Task is work that all ranks do at the same time, without communication.
type Task struct {
	Op    string
	Call  func(ctx context.Context, i int) error // call number i on this rank
	Units float64                                // units of work in a call
}

// Task measures t. It calls finish with the row and with the units per second of each rank. It is collective over the
// world.
func (r *Run) Task(ctx context.Context, t Task, finish func(row *report.Measurement, rates []float64)) error {
	return r.measure(ctx, r.all, false, func() ([]*arm, func(), error) {
		a := &arm{call: t.Call, row: report.Measurement{Op: t.Op, Ranks: r.all.Size()}}
		return []*arm{a}, func() { finish(&a.row, a.rates(t.Units)) }, nil
	})
}

// Record adds a row that was measured elsewhere, and the note if it is not empty. It does nothing on ranks other than
// 0.
func (r *Run) Record(row report.Measurement, note string) error {
	if note != "" {
		r.note("%s", note)
	}
	return r.add([]report.Measurement{row})
}

// deliver sends rows from one rank to rank 0. The argument lead is the sending rank. deliver returns the rows on rank
// 0, and nil on other ranks.
func (r *Run) deliver(ctx context.Context, lead int, rows []report.Measurement) ([]report.Measurement, error) {
	text, err := json.Marshal(rows)
	if err != nil {
		return nil, err
	}
	all, err := r.reports.Gather(ctx, text, 0)
	if err != nil || r.w.Rank() != 0 {
		return nil, err
	}
	rows = nil
	return rows, json.Unmarshal(all[lead], &rows)
}

// add adds rows to the report of rank 0.
func (r *Run) add(rows []report.Measurement) error {
	if r.w.Rank() != 0 {
		return nil
	}
	for _, row := range rows {
		if len(row.Samples) > 0 {
			r.rep.Rows = append(r.rep.Rows, row)
		}
	}
	return r.write((*report.Writer).Update)
}

// note adds a note to the report, unless the report has the same note.
func (r *Run) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(r.rep.Notes, text) {
		r.rep.Notes = append(r.rep.Notes, text)
	}
}

// Stopped reports whether the run was asked to stop. The answer is the same on every rank.
func (r *Run) Stopped() bool { return r.stopped }

// Interrupted reports whether this rank was asked to stop. If so, it ends the run.
func (r *Run) Interrupted() bool {
	r.stopped = r.stopped || r.opts.Stop()
	return r.stopped
}

// End completes the report of rank 0 and writes it. If complete is false, the report says that rows are missing. End
// does not communicate, so it can also be called after a failure.
func (r *Run) End(complete bool) (*report.Report, error) {
	r.rep.Complete, r.rep.Ended = complete && !r.stopped, time.Now().Round(time.Second)
	if r.w.Rank() != 0 || !r.open {
		return &r.rep, nil
	}
	return &r.rep, r.write((*report.Writer).End)
}
