package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/plot"
)

// Plot returns an SVG of the medians and their confidence intervals by size, and of the bandwidths if the rows have
// them. Both axes are logarithmic. A curve is a series on one number of ranks.
func (r *Report) Plot() ([]byte, error) {
	title := fmt.Sprintf("rlinf bench %s, %s, %s", r.Bench, figures.Count(r.Machine.Ranks, "rank"), r.Machine.Transport)
	if l := r.Machine.Load(); l > 1 {
		title += fmt.Sprintf(", OVERSUBSCRIBED %.1fx", l)
	}
	latency, bandwidth := chart("latency (µs), median and its 95 % interval"), plot.Chart{}
	figure := ""
	for _, name := range []string{"bw_gbs", "busbw_gbs"} {
		if slices.Contains(r.Figures, name) {
			figure, bandwidth = name, chart(strings.TrimSuffix(name, "_gbs")+" (GB/s)")
		}
	}
	rows := r.Where(func(row *Measurement) bool { return row.Size > 0 && row.Median > 0 })
	for name, rows := range Group(rows, curveName) {
		slices.SortStableFunc(rows, bySize)
		c, rate := plot.Curve{Name: name, Marks: true}, plot.Curve{Name: name, Marks: true}
		for _, row := range rows {
			c.X, c.Y = append(c.X, float64(row.Size)), append(c.Y, row.Median)
			c.Low, c.High = append(c.Low, row.CILow), append(c.High, row.CIHigh)
			rate.Y = append(rate.Y, row.Figures[figure])
		}
		rate.X = c.X
		latency.Curves, bandwidth.Curves = append(latency.Curves, c), append(bandwidth.Curves, rate)
	}
	if len(rows) == 0 {
		return nil, errors.New("plot: no row has a size > 0 and a time > 0")
	}
	f := plot.Figure{Title: title, Charts: []plot.Chart{latency}}
	if figure != "" {
		f.Charts = append(f.Charts, bandwidth)
	}
	return f.SVG(), nil
}

// chart returns a chart without curves. Its horizontal axis is the size.
func chart(title string) plot.Chart {
	return plot.Chart{
		Title: title, X: "size", XScale: plot.Log2, YScale: plot.Log10,
		XLabel: func(v float64) string { return Bytes(int64(v)) },
	}
}

// curveName returns the name of a row's curve.
func curveName(row *Measurement) string {
	return fmt.Sprintf("%s, %d ranks", row.Series().Name(), row.Ranks)
}
