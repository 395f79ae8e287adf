package bench

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/collectives/bench/stats"
	"github.com/rlinf/rlinf/spmd"
)

// busFactor returns the ratio of bus bandwidth to size/time (nccl-tests, doc/PERFORMANCE.md).
func busFactor(k spmd.CollectiveKind, n int) float64 {
	switch {
	case k == spmd.AllReduce:
		return 2 * float64(n-1) / float64(n)
	case blocks(k):
		return float64(n-1) / float64(n)
	}
	return 1
}

// moved returns the total number of bytes that members must send in an operation of the given size in bytes.
func moved(k spmd.CollectiveKind, n int, size int64) float64 {
	s, others := float64(size), float64(n-1)
	switch k {
	case spmd.Barrier:
		return 0
	case spmd.AllReduce:
		return 2 * others * s
	case spmd.Gather, spmd.Scatter:
		return others / float64(n) * s
	case spmd.SendReceive:
		return float64(n) * s
	}
	return others * s // n-1 copies, n-1 terms of a sum, or n-1 blocks of each of n members
}

// gbs returns the bandwidth, in 10⁹ bytes per second, of a transfer with this size and duration.
func gbs(bytes, microseconds float64) float64 {
	if microseconds <= 0 {
		return math.NaN()
	}
	return bytes / microseconds / 1e3
}

// fit adds a Fit to the report of rank 0 for every series. A row of auto has the cost of the algorithm that auto chose.
func (r *Run) fit(plan *Suite) {
	rows := r.rep.Where(func(row *report.Measurement) bool { return row.Ranks > 1 && row.Size > 0 })
	for of, rows := range report.Group(rows, (*report.Measurement).Series) {
		kind := plan.Kinds[slices.IndexFunc(plan.Kinds,
			func(kind spmd.CollectiveKind) bool { return kind.String() == of.Op })]
		if fit, ok := fitRows(kind, rows, r.w.Nodes()); ok {
			r.rep.Fits = append(r.rep.Fits, fit)
		}
	}
}

// fitRows fits a line through the rows of a series, and sets their model_x. nodes has the node of each rank. If there
// are fewer than three sizes, ok is false, because two points always lie on a line.
func fitRows(kind spmd.CollectiveKind, rows []*report.Measurement, nodes []int) (fit report.Fit, ok bool) {
	var largest []*report.Measurement // for each size, the row with the most ranks
	for _, same := range report.BySize(rows) {
		largest = append(largest, slices.MaxFunc(same, func(a, b *report.Measurement) int { return a.Ranks - b.Ranks }))
	}
	if len(largest) < 3 {
		return fit, false
	}
	var points []stats.FitPoint
	var chosen []string
	for _, row := range rows {
		cost := costOf(kind, row, row.Ranks, len(report.Distinct(nodes[:row.Ranks])))
		points = append(points, stats.FitPoint{Rounds: cost.Rounds, Bytes: cost.Bytes, Time: row.Median})
		if chosen = append(chosen, row.Chosen); len(points) == 1 {
			fit.Rounds, fit.Bytes = cost.RoundsFormula, cost.BytesFormula
		}
	}
	if chosen = report.Distinct(chosen); len(chosen) > 1 {
		fit.Rounds, fit.Bytes = strings.Join(chosen, "|"), strings.Join(chosen, "|")
	}
	line := stats.Fit(points)
	for i, row := range rows {
		row.SetFigure("model_x", row.Median/line.At(points[i].Rounds, points[i].Bytes))
	}
	fit.SizeSeries, fit.Points = rows[0].Series(), len(points)
	fit.Alpha, fit.Beta, fit.Residual = line.Alpha, line.Beta, line.Residual
	for _, factor := range []int{2, 4, 8} {
		for _, row := range []*report.Measurement{largest[0], largest[len(largest)/2], largest[len(largest)-1]} {
			n, on := factor*row.Ranks, len(report.Distinct(nodes[:row.Ranks]))
			if on > 1 { // keep the number of ranks on each node
				on *= factor
			}
			cost := costOf(kind, row, n, on)
			fit.Predictions = append(fit.Predictions,
				report.PredictedTime{Ranks: n, Size: row.Size, TimeUS: line.At(cost.Rounds, cost.Bytes)})
		}
	}
	return fit, true
}

// costOf returns the cost of a row's operation by the row's algorithm, on the given numbers of ranks and nodes.
func costOf(kind spmd.CollectiveKind, row *report.Measurement, ranks, nodes int) collectives.Cost {
	return collectives.CostOf(cmp.Or(row.Chosen, row.Algorithm),
		collectives.Shape{Kind: kind, Members: ranks, Nodes: nodes, Bytes: int(row.Size)})
}
