package bench

import (
	"math"
	"math/bits"
	"slices"

	"github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/collectives/bench/stats"
	"github.com/rlinf/rlinf/spmd"
)

// A cost says how many messages, and how many times the size, follow one another in an algorithm on
// n members.
type cost struct {
	rounds, bytes               func(n int) float64
	roundsFormula, bytesFormula string
}

// costOf returns the cost of an algorithm for an operation; that of an algorithm that is not known,
// as the library's, is the least there is for either term.
func costOf(k spmd.Kind, algorithm string) cost {
	log := func(n int) float64 { return float64(bits.Len(uint(n - 1))) } // ⌈log₂ n⌉
	part := func(n int) float64 { return float64(n-1) / float64(n) }
	one := func(int) float64 { return 1 }
	times := func(k float64, f func(int) float64) func(int) float64 { return func(n int) float64 { return k * f(n) } }
	hops := func(n int) float64 { return float64(n - 1) }

	c := cost{rounds: log, roundsFormula: "log2 n"}
	switch k {
	case spmd.Barrier:
		c.bytes, c.bytesFormula = func(int) float64 { return 0 }, "0"
		return c
	case spmd.Broadcast, spmd.Reduce, spmd.SendReceive:
		c.bytes, c.bytesFormula = one, "1"
	case spmd.AllReduce:
		c.bytes, c.bytesFormula = times(2, part), "2(n-1)/n"
	default:
		c.bytes, c.bytesFormula = part, "(n-1)/n"
	}
	if k == spmd.SendReceive {
		c.rounds, c.roundsFormula = one, "1"
		return c
	}
	both := k == spmd.AllReduce // a reduction, and then all get it
	switch algorithm {
	case "ring", "ordered", "direct":
		c.rounds, c.roundsFormula = hops, "(n-1)"
		if both {
			c.rounds, c.roundsFormula = times(2, hops), "2(n-1)"
		}
	case "rabenseifner":
		c.rounds, c.roundsFormula = times(2, log), "2 log2 n"
	case "doubling":
		if both || k == spmd.Broadcast || k == spmd.Reduce {
			c.bytes, c.bytesFormula = log, "log2 n"
		}
	case "tree":
		if both {
			c.rounds, c.roundsFormula = times(2, log), "2 log2 n"
			c.bytes, c.bytesFormula = times(2, log), "2 log2 n"
		} else if k == spmd.Broadcast || k == spmd.Reduce {
			c.bytes, c.bytesFormula = log, "log2 n"
		}
	}
	return c
}

// busFactor turns size/time into the bandwidth that every link must have (nccl-tests,
// doc/PERFORMANCE.md).
func busFactor(k spmd.Kind, n int) float64 {
	switch {
	case k == spmd.AllReduce:
		return 2 * float64(n-1) / float64(n)
	case blocks(k):
		return float64(n-1) / float64(n)
	}
	return 1
}

// moved returns how many bytes an operation of size bytes must bring from one member to another,
// all together.
func moved(k spmd.Kind, n int, size int64) float64 {
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
	return others * s // n-1 copies, n-1 summands, or (n-1)/n of each of n members' data
}

// gbs returns 10⁹ bytes per second.
func gbs(bytes, microseconds float64) float64 {
	if microseconds <= 0 {
		return math.NaN()
	}
	return bytes / microseconds / 1e3
}

// fit fits a line through the times of each algorithm, on rank 0.
func (r *Run) fit(plan *Plan) {
	type key struct{ op, algorithm, dtype, memory string }
	var order []key
	rows := map[key][]*report.Row{}
	for i := range r.rep.Rows {
		row := &r.rep.Rows[i]
		if row.Ranks < 2 || row.Size == 0 {
			continue
		}
		k := key{row.Op, row.Algorithm, row.DType, row.Memory}
		if rows[k] == nil {
			order = append(order, k)
		}
		rows[k] = append(rows[k], row)
	}
	for _, k := range order {
		kind := plan.Kinds[slices.IndexFunc(plan.Kinds, func(kind spmd.Kind) bool { return kind.String() == k.op })]
		cost := costOf(kind, k.algorithm)
		var points []stats.Point
		most, sizes := 0, []int64{}
		for _, row := range rows[k] {
			points = append(points, stats.Point{Rounds: cost.rounds(row.Ranks),
				Bytes: cost.bytes(row.Ranks) * float64(row.Size), Time: row.Median})
			most = max(most, row.Ranks)
			if !slices.Contains(sizes, row.Size) {
				sizes = append(sizes, row.Size)
			}
		}
		if len(sizes) < 3 {
			continue // two points always lie on a line
		}
		line := stats.Fit(points)
		for i, row := range rows[k] {
			row.SetFigure("model_x", row.Median/line.At(points[i].Rounds, points[i].Bytes))
		}
		f := report.Fit{Op: k.op, Algorithm: k.algorithm, DType: k.dtype, Memory: k.memory, Rounds: cost.roundsFormula,
			Bytes: cost.bytesFormula,
			Alpha: line.Alpha, Beta: line.Beta, Residual: line.Residual, Points: len(points)}
		slices.Sort(sizes)
		for _, factor := range []int{2, 4, 8} {
			for _, size := range []int64{sizes[0], sizes[len(sizes)/2], sizes[len(sizes)-1]} {
				n := factor * most
				f.Predictions = append(f.Predictions,
					report.Prediction{Ranks: n, Size: size,
						TimeUS: line.At(cost.rounds(n), cost.bytes(n)*float64(size))})
			}
		}
		r.rep.Fits = append(r.rep.Fits, f)
	}
}
