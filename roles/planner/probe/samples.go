package probe

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/rlinf/rlinf/roles/planner"
	"gonum.org/v1/gonum/stat"
)

// A CallSamples has the samples of one operation, in seconds.
type CallSamples struct {
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

// Repeat calls f again and again for the time d. The number of calls is in [least, most]. f gets the number of the
// call, from 0. Repeat stops at an error of f, and when ctx ends.
func Repeat(ctx context.Context, least, most int, d time.Duration, f func(n int) error) error {
	begun := time.Now()
	for n := 0; n < most && (n < least || time.Since(begun) < d); n++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := f(n); err != nil {
			return err
		}
	}
	return nil
}

// AddTogether calls f(0) to f(n-1) at the same time, and adds the mean of their seconds as one sample.
func (s *CallSamples) AddTogether(n int, f func(i int) (seconds float64, err error)) error {
	mean, err := Together(n, f)
	s.Samples = append(s.Samples, mean)
	return err
}

// Crowd returns the slow-down of op on this many cores. s has the times of calls on all of them at the same time, and
// alone has the times of single calls.
func (s *CallSamples) Crowd(op string, cores int, alone *CallSamples) planner.Crowd {
	return planner.Crowd{Op: op, Cores: cores, Factor: max(1, Median(s.Samples)/Median(alone.Samples))}
}

// Add adds the time d of one call.
func (s *CallSamples) Add(d time.Duration) {
	s.Samples = append(s.Samples, d.Seconds())
	s.Total += d.Seconds()
}

// Cost returns the cost of an operation with this many rows. If s has no processor time, all time counts as busy.
func (s *CallSamples) Cost(op string, rows int) planner.CallTimes {
	m := Median(s.Samples)
	c := planner.CallTimes{Op: op, Rows: rows, Seconds: m, Busy: m}
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
