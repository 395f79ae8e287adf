package report

import (
	"fmt"

	"github.com/rlinf/rlinf/collectives/bench/stats"
)

// Merge makes one report from several starts of the same benchmark. A row has the samples of all starts. Its median and
// interval are computed from the medians of the starts. Starts run on different cores and memory pages, so they differ
// by more than the samples of one start do.
func Merge(starts []*Report) *Report {
	all := *starts[0]
	all.Fits, all.Notes = nil, nil // the fits of one start do not hold for all starts
	var rows []*Measurement
	for _, r := range starts {
		rows = append(rows, r.rows()...)
		all.Complete, all.Ended = all.Complete && r.Complete, r.Ended
		all.Notes = append(all.Notes, r.Notes...)
	}
	all.Notes = Distinct(all.Notes)
	all.Rows = nil
	for _, rows := range Group(rows, (*Measurement).Key) {
		all.Rows = append(all.Rows, mergeRows(rows))
	}
	if n := all.Starts(); n > 1 {
		all.Notes = append(all.Notes, fmt.Sprintf("%d starts: med_us is the median of their medians, and its interval "+
			"is over starts", n))
	}
	return &all
}

// Starts returns the number of starts of the benchmark. If this number differs between rows, Starts returns the
// minimum.
func (r *Report) Starts() int {
	n := 0
	for i, row := range r.Rows {
		if s := max(1, len(row.Starts)); i == 0 || s < n {
			n = s
		}
	}
	return n
}

// medians returns the row's medians, one for each start of the benchmark.
func (r *Measurement) medians() []float64 {
	if len(r.Starts) > 0 {
		return r.Starts
	}
	return []float64{r.Median}
}

// mergeRows makes one row from the rows of several starts.
func mergeRows(rows []*Measurement) Measurement {
	all := *rows[0]
	if len(rows) == 1 {
		return all
	}
	all.Samples, all.Starts, all.Figures, all.Checked, all.Wrong = nil, nil, nil, 0, 0
	var skew, cpu []float64
	figures := map[string][]float64{}
	for _, row := range rows {
		all.Samples, all.Starts = append(all.Samples, row.Samples...), append(all.Starts, row.medians()...)
		all.Checked, all.Wrong = all.Checked+row.Checked, all.Wrong+row.Wrong
		skew, cpu = append(skew, row.Skew), append(cpu, row.CPU)
		for name, x := range row.Figures {
			figures[name] = append(figures[name], x)
		}
	}
	all.Summarize()
	s := stats.Summarize(all.Starts)
	all.Median, all.CILow, all.CIHigh = s.Median, s.CILow, s.CIHigh
	all.Skew, all.CPU = stats.Median(skew), stats.Median(cpu)
	for name, x := range figures {
		all.SetFigure(name, stats.Median(x))
	}
	return all
}
