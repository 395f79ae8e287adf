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

// StepsPerSample is how many steps of the clock a sample takes at least, so that one reading is off by
// 1 % at most.
const StepsPerSample = 100

// Batch returns how many calls to time together for a sample by a clock whose smallest step is step: 1 for
// a call that takes StepsPerSample steps or more.
func Batch(call, step time.Duration) int {
	return max(1, int(math.Ceil(StepsPerSample*float64(step)/float64(max(1, call)))))
}
