package report

import "github.com/rlinf/rlinf/internal/trace"

// phaseNames are the page's names for the phases of an iteration: the phases of trace.Phases, then the rest of the
// step.
var phaseNames = [...]string{"send weights", "make rollouts", "advantages", "train", "evaluate", "rest"}

// phaseMetrics are the metrics of the phases in phaseNames. The phase "rest" has no metric.
var phaseMetrics = [...]string{"time/sync_weights", "time/generate_rollouts", "time/cal_adv_and_returns",
	"time/actor_training", "time/eval"}

// phasesData has the times of an iteration's phases, in seconds.
type phasesData struct {
	Iterations array    `json:"iterations"`
	Each       int      `json:"each"` // number of iterations in a point
	Names      []string `json:"names"`
	Slowest    []array  `json:"slowest"` // times of the slowest rank, by phase
	Mean       []array  `json:"mean"`    // mean or median times of the ranks, by phase
	MeanName   string   `json:"meanName"`
	Rank       *array   `json:"rank"`   // the slowest rank; nil if unknown
	Source     string   `json:"source"` // source of the times, in words
}

// A phaseRow has the phase times of an iteration, in seconds.
type phaseRow struct {
	iteration     float64
	slowest, mean [len(phaseNames)]float64
	rank          int
}

// phases packs the phase times. It takes them from the trace, or from the metrics if there is no trace.
func (r *Run) phases(p *packer) *phasesData {
	d := &phasesData{MeanName: "mean of ranks", Each: 1}
	rows := r.tracedPhases()
	if len(rows) > 0 {
		d.Source = "The slowest rank is the rank with the longest iteration."
		if a := r.Trace.Attempts; len(a) > 0 && len(a[len(a)-1].Phases) > 0 && a[len(a)-1].Phases[0].Ranks == nil {
			d.MeanName = "median of ranks"
		}
	} else if rows = r.measuredPhases(); len(rows) > 0 {
		d.Source = "Without a trace, the slowest rank is another one in each phase: its times may add up to more " +
			"than the iteration."
	} else {
		return nil
	}
	if len(rows) > 2*mostBuckets {
		d.Each = (len(rows) + 2*mostBuckets - 1) / (2 * mostBuckets)
		rows = thinPhases(rows, d.Each)
	}
	var at, rank []float64
	for _, row := range rows {
		at = append(at, row.iteration)
		rank = append(rank, float64(row.rank))
	}
	d.Iterations = p.f64(at)
	if rows[0].rank >= 0 {
		packed := p.f32(rank)
		d.Rank = &packed
	}
	for k, name := range phaseNames {
		slowest, mean, any := make([]float64, len(rows)), make([]float64, len(rows)), false
		for i, row := range rows {
			slowest[i], mean[i] = row.slowest[k], row.mean[k]
			any = any || slowest[i] > 0
		}
		if any {
			d.Names = append(d.Names, name)
			d.Slowest, d.Mean = append(d.Slowest, p.f32(slowest)), append(d.Mean, p.f32(mean))
		}
	}
	return d
}

// thinPhases joins groups of rows. size is the number of rows in a group. A joined row has the times of the slowest
// rank in the group's longest iteration, and the mean of the group's mean times.
func thinPhases(rows []phaseRow, size int) (thin []phaseRow) {
	for i := 0; i < len(rows); i += size {
		part := rows[i:min(i+size, len(rows))]
		one := part[0]
		for _, row := range part[1:] {
			if sum(row.slowest) > sum(one.slowest) {
				one = row
			}
		}
		one.mean = [len(phaseNames)]float64{}
		for _, row := range part {
			for k, v := range row.mean {
				one.mean[k] += v / float64(len(part))
			}
		}
		one.iteration = part[0].iteration
		thin = append(thin, one)
	}
	return thin
}

// tracedPhases returns the phase times in the trace. A later attempt replaces iterations that it repeats.
func (r *Run) tracedPhases() (rows []phaseRow) {
	if r.Trace == nil {
		return nil
	}
	for _, a := range r.Trace.Attempts {
		for _, ph := range a.Phases {
			for len(rows) > 0 && rows[len(rows)-1].iteration >= float64(ph.Iteration) {
				rows = rows[:len(rows)-1]
			}
			rows = append(rows, rowOf(ph))
		}
	}
	return rows
}

func rowOf(ph trace.Phases) phaseRow {
	row := phaseRow{iteration: float64(ph.Iteration), rank: -1}
	for i, times := range ph.Ranks {
		if row.rank < 0 || times[0] > ph.Ranks[row.rank][0] {
			row.rank = i
		}
		for k, v := range split(times) {
			row.mean[k] += v / float64(len(ph.Ranks))
		}
	}
	switch {
	case row.rank >= 0:
		row.slowest = split(ph.Ranks[row.rank])
	case len(ph.Slowest) > 0:
		row.rank, row.slowest, row.mean = ph.Slowest[0].Rank, split(ph.Slowest[0].Times), split(ph.Median)
	default:
		row.slowest, row.mean = split(ph.Median), split(ph.Median)
	}
	return row
}

// split returns the phase times of an iteration, and the rest of the whole step.
func split(times [trace.NumPhases]float32) (out [len(phaseNames)]float64) {
	rest := float64(times[0])
	for k := range phaseMetrics {
		out[k] = float64(times[k+1])
		rest -= out[k]
	}
	out[len(out)-1] = max(rest, 0)
	return out
}

// measuredPhases returns the phase times in the metrics.
func (r *Run) measuredPhases() (rows []phaseRow) {
	m := r.Metrics
	if m.Columns["time/step"] == nil {
		return nil
	}
	value := func(name string, i int) float64 {
		x := m.Columns[name]
		if x == nil || !finite(x[i]) {
			return 0
		}
		return x[i]
	}
	for i, step := range m.Steps {
		row := phaseRow{iteration: step, rank: -1}
		slowest, mean := value("time/step", i), value("time/step_mean", i)
		for k, name := range phaseMetrics {
			row.slowest[k], row.mean[k] = value(name, i), value(name+"_mean", i)
			slowest, mean = slowest-row.slowest[k], mean-row.mean[k]
		}
		row.slowest[len(phaseMetrics)], row.mean[len(phaseMetrics)] = max(slowest, 0), max(mean, 0)
		rows = append(rows, row)
	}
	return rows
}

func sum(x [len(phaseNames)]float64) (s float64) {
	for _, v := range x {
		s += v
	}
	return s
}
