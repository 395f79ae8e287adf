package stats

import (
	"math"
	"time"
)

// A StopRule says when a measurement ends.
type StopRule struct {
	// RelativeCI ends the measurement when there are MinSamples and SampleSummary.RelativeCI is at most this value.
	RelativeCI float64
	MinSamples int
	// MaxTime ends the measurement after this time, if there is a sample.
	MaxTime time.Duration
	// MaxSamples ends the measurement at this number of samples.
	MaxSamples int
}

// Done reports whether the samples are enough. elapsed is the time that they took.
func (r StopRule) Done(samples []float64, elapsed time.Duration) bool {
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

// StepsPerSample is the minimum number of clock steps in a sample. An error of one step is then at most 1 %.
const StepsPerSample = 100

// Batch returns the number of calls to time as one sample, so that the sample has StepsPerSample steps of the clock.
// call is the time of a call, and step the time of a step.
func Batch(call, step time.Duration) int {
	return max(1, int(math.Ceil(StepsPerSample*float64(step)/float64(max(1, call)))))
}
