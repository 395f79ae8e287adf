package stats

import (
	"math"
	"time"
)

// A Rule says when a measurement ends.
type Rule struct {
	// RelativeCI ends the measurement once there are MinSamples and both ends of the median's 95 %
	// confidence interval are within this fraction of the median.
	RelativeCI float64
	MinSamples int
	// MaxTime ends the measurement after this time in any case, once there is a sample.
	MaxTime time.Duration
	// MaxSamples ends the measurement at this number of samples. If MinSamples equals MaxSamples, the
	// number is fixed, as far as MaxTime allows.
	MaxSamples int
}

// Done reports whether the samples are enough. elapsed is the time that they took.
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

// StepsPerSample is the least number of clock steps in a sample. With so many steps, an error of one step changes a
// sample by at most 1 %.
const StepsPerSample = 100

// Batch returns how many calls to time together as one sample. call is the time of a call, and step is the
// smallest step of the clock. The result is 1 if a call takes StepsPerSample steps or more.
func Batch(call, step time.Duration) int {
	return max(1, int(math.Ceil(StepsPerSample*float64(step)/float64(max(1, call)))))
}
