package bench

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/spmd"
)

// TestFitKnows: a fit to times that follow the formula of an algorithm returns the α and β of the formula, for
// shared, and for the algorithms that auto chose.
func TestFitKnows(t *testing.T) {
	const alpha, beta = 3, 0.002 // µs, µs a byte
	nodes := make([]int, 8)
	shared := func(n, size int) float64 { // docs of collectives.newShared: allreduce
		if size <= 64<<10 {
			return alpha + 2*float64(n*size)*beta
		}
		return 2*alpha + 2*float64(size)*beta
	}
	ring := func(n, size int) float64 { return float64(2*(n-1)) * (alpha + float64(size)/float64(n)*beta) }
	doubling := func(n, size int) float64 { // docs of collectives.newDoubling: rounds of four, and one of two
		levels := math.Log2(float64(n))
		pair := math.Mod(levels, 2)
		return (levels+pair)/2*alpha + ((levels-pair)/2*3+pair)*float64(size)*beta
	}
	for _, x := range []struct {
		algorithm string
		chosen    func(size int) string
		time      func(n, size int) float64
	}{
		{"shared", func(int) string { return "" }, shared},
		{"auto", func(int) string { return "shared" }, shared},
		{"auto", func(size int) string {
			if size < 1<<20 {
				return "doubling"
			}
			return "ring"
		}, func(n, size int) float64 {
			if size < 1<<20 {
				return doubling(n, size)
			}
			return ring(n, size)
		}},
	} {
		var rows []*report.Measurement
		for _, n := range []int{2, 4, 8} {
			for _, size := range []int{64, 1 << 12, 1 << 16, 1 << 21} {
				rows = append(rows, &report.Measurement{Op: "allreduce", Algorithm: x.algorithm, Chosen: x.chosen(size),
					Ranks: n,
					Size:  int64(size), Median: x.time(n, size)})
			}
		}
		fit, ok := fitRows(spmd.AllReduce, rows, nodes)
		if !ok || math.Abs(fit.Alpha-alpha) > 1e-6 || math.Abs(fit.Beta-beta) > 1e-9 || fit.Residual > 1e-6 {
			t.Errorf("%s: fit %+v, want alpha %g and beta %g", x.algorithm, fit, float64(alpha), beta)
		}
		last := fit.Predictions[len(fit.Predictions)-1]
		if want := x.time(64, 1<<21); last.Ranks != 64 || math.Abs(last.TimeUS-want) > 1e-6*want {
			t.Errorf("%s: prediction %+v, want %g us", x.algorithm, last, want)
		}
	}
}
