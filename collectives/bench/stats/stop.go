package stats

import (
	"math"
	"time"
)

// A Rule says how long a measurement goes on.
type Rule struct {
	// RelativeCI ends it once the 95 % confidence interval of the median lies within this part of
	// the median on either side, and MinSamples are there.
	RelativeCI float64
	MinSamples int
	// MaxTime ends it in any case, once there is a sample.
	MaxTime time.Duration
	// MaxSamples ends it too. MinSamples = MaxSamples is a fixed number, if MaxTime allows.
	MaxSamples int
}

// Done reports whether samples, taken in elapsed, are enough.
func (r Rule) Done(samples []float64, elapsed time.Duration) bool {
	n := len(samples)
	switch {
	case n == 0:
		return false
	case n >= r.MaxSamples, elapsed >= r.MaxTime:
		return true
	case n < r.MinSamples:
		return false
	}
	return Summarize(samples).RelativeCI() <= r.RelativeCI
}

// Batch returns how many calls to time together so that one reading of a clock, whose smallest step
// is step, is off by 1 % at most: 1 for a call that takes 100 steps or more.
func Batch(call, step time.Duration) int {
	const steps = 100
	if call <= 0 {
		call = 1
	}
	return max(1, int(math.Ceil(steps*float64(step)/float64(call))))
}
