package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/plot"
)

// Plot draws the medians by size, with their confidence intervals, and the bandwidth by size where
// the rows have one: an SVG, both axes logarithmic. A curve is an operation by an algorithm on so
// many ranks.
func (r *Report) Plot() ([]byte, error) {
	all := r.series()
	if len(all) == 0 {
		return nil, errors.New("plot: no row has a size > 0 and a time > 0")
	}
	title := fmt.Sprintf("rlinf bench %s, %s, %s", r.Bench, plural(r.Machine.Ranks, "rank"), r.Machine.Transport)
	if l := r.Machine.Load(); l > 1 {
		title += fmt.Sprintf(", OVERSUBSCRIBED %.1fx", l)
	}
	f := plot.Figure{Title: title, Charts: []plot.Chart{chart("latency (µs), median and its 95 % interval")}}
	latency := &f.Charts[0]
	for _, s := range all {
		c := plot.Curve{Name: s.name, Marks: true}
		for _, row := range s.rows {
			c.X, c.Y = append(c.X, float64(row.Size)), append(c.Y, row.Median)
			c.Low, c.High = append(c.Low, row.CILow), append(c.High, row.CIHigh)
		}
		latency.Curves = append(latency.Curves, c)
	}
	for _, name := range []string{"busbw_gbs", "bw_gbs"} {
		if !slices.Contains(r.Figures, name) {
			continue
		}
		bandwidth := chart(strings.TrimSuffix(name, "_gbs") + " (GB/s)")
		for _, s := range all {
			c := plot.Curve{Name: s.name, Marks: true}
			for _, row := range s.rows {
				c.X, c.Y = append(c.X, float64(row.Size)), append(c.Y, row.Figures[name])
			}
			bandwidth.Curves = append(bandwidth.Curves, c)
		}
		f.Charts = append(f.Charts, bandwidth)
		break
	}
	return f.SVG(), nil
}

// chart returns empty axes over sizes.
func chart(title string) plot.Chart {
	return plot.Chart{
		Title: title, X: "size", XScale: plot.Log2, YScale: plot.Log10,
		XLabel: func(v float64) string { return Bytes(int64(v)) },
	}
}

// A series is the rows of one curve, by size.
type series struct {
	name string
	rows []*Row
}

func (r *Report) series() []series {
	var all []series
	index := map[string]int{}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Size <= 0 || !(row.Median > 0) {
			continue
		}
		name := strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s, %d ranks", row.Op, row.Algorithm, row.DType,
			row.Memory, row.Ranks)), " ")
		name = strings.Replace(name, " ,", ",", 1)
		at, ok := index[name]
		if !ok {
			at = len(all)
			index[name] = at
			all = append(all, series{name: name})
		}
		all[at].rows = append(all[at].rows, row)
	}
	for _, s := range all {
		slices.SortStableFunc(s.rows, func(a, b *Row) int { return int(a.Size/2 - b.Size/2) })
	}
	return all
}
