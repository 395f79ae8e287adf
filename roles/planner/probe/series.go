package probe

import (
	"cmp"
	"sync"
	"time"

	"github.com/rlinf/rlinf/roles/planner"
	"gonum.org/v1/gonum/stat"
)

// A Series has the samples of one operation, in seconds.
type Series struct {
	Samples []float64
	Busy    float64 // processor seconds of all calls
	Total   float64 // seconds of all calls
}

// Together calls f(0) to f(n-1) at the same time, and returns the mean of their seconds, and the first error.
func Together(n int, f func(i int) (seconds float64, err error)) (mean float64, err error) {
	var wg sync.WaitGroup
	errs, seconds := make([]error, n), make([]float64, n)
	for i := range n {
		wg.Go(func() { seconds[i], errs[i] = f(i) })
	}
	wg.Wait()
	return stat.Mean(seconds, nil), cmp.Or(errs...)
}

// Add adds a sample.
func (s *Series) Add(d time.Duration) {
	s.Samples = append(s.Samples, d.Seconds())
	s.Total += d.Seconds()
}

// Cost returns the cost of an operation with this many rows. If s has no processor time, all time counts as busy.
func (s *Series) Cost(op string, rows int) planner.Cost {
	m := Median(s.Samples)
	c := planner.Cost{Op: op, Rows: rows, Seconds: m, Busy: m}
	if s.Busy > 0 && s.Total > 0 && s.Busy < 0.9*s.Total {
		c.Busy = m * s.Busy / s.Total
	}
	if n := len(s.Samples); n >= 20 && m > 0 {
		const parts = 10
		for i := range parts + 1 { // without the extremes, which are noise of the machine
			q := 0.02 + 0.96*float64(i)/parts
			c.Spread = append(c.Spread, stat.Quantile(q, stat.LinInterp, s.Samples, nil)/m)
		}
	}
	return c
}
