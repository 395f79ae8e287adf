package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// percentile returns the p-th percentile of samples in ascending order, 0 <= p <= 100: the sample at place 1 +
// (n-1)·p/100 of n, interpolated between its neighbours (definition 7 of Hyndman and Fan 1996, as in R and NumPy).
// Gonum has only definitions 1 and 4, whose median of an even number of samples is not the mean of the middle two.
// Without samples the result is NaN.
func percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := float64(len(sorted)-1) * p / 100
	low := min(int(at), len(sorted)-1)
	high := min(low+1, len(sorted)-1)
	if part := at - float64(low); part > 0 {
		return sorted[low] + part*(sorted[high]-sorted[low])
	}
	return sorted[low] // without interpolation, which would give NaN if the neighbour is infinite
}

// Median returns the median of x, or NaN if x is empty.
func Median(x []float64) float64 { return percentile(slices.Sorted(slices.Values(x)), 50) }

// A SampleSummary describes the samples of one measurement for a report. Its values are in the unit of the samples.
type SampleSummary struct {
	N        int
	Min, Max float64
	Median   float64
	// CILow and CIHigh are the 95 % confidence interval of the median. With fewer than 6 samples they are Min and Max.
	CILow, CIHigh float64
	P90, P99      float64
}

// Summarize returns the SampleSummary of x. If x is empty, all values are NaN.
func Summarize(x []float64) SampleSummary {
	sorted := slices.Sorted(slices.Values(x))
	s := SampleSummary{N: len(x), Min: percentile(sorted, 0), Max: percentile(sorted, 100),
		Median: percentile(sorted, 50),
		P90:    percentile(sorted, 90), P99: percentile(sorted, 99), CILow: math.NaN(), CIHigh: math.NaN()}
	if len(x) > 0 {
		low, high := medianRanks(len(x))
		s.CILow, s.CIHigh = sorted[low], sorted[high]
	}
	return s
}

// RelativeCI returns the distance of the median from the farther end of its interval, as a fraction of the median: 0.02
// means ±2 %. It is infinite for fewer than 6 samples.
func (s SampleSummary) RelativeCI() float64 {
	if s.N < minForCI {
		return math.Inf(1)
	}
	if s.CILow == s.CIHigh {
		return 0
	}
	return max(s.Median-s.CILow, s.CIHigh-s.Median) / math.Abs(s.Median)
}

// minForCI is the minimum number of samples whose extremes enclose the median with a probability of 95 % or more. With
// 6 samples the probability is 1 - 2·(1/2)⁶ = 0.97.
const minForCI = 6

// medianRanks returns two indices into n sorted samples. The median of the distribution lies between the samples at
// these indices with a probability of at least 95 %. For any distribution the number of samples below its median is
// binomial (Le Boudec, "Performance Evaluation of Computer and Communication Systems", 2010, §2.2.2). The indices are
// exact up to 70 samples, and use the normal approximation beyond.
func medianRanks(n int) (low, high int) {
	if n <= 70 {
		// low becomes the largest number with P(at most low samples below the median) <= 2.5 %.
		below := distuv.Binomial{N: float64(n), P: 0.5}
		for low = -1; below.CDF(float64(low+1)) <= 0.025; low++ {
		}
	} else {
		low = int((float64(n)-1.96*math.Sqrt(float64(n)))/2) - 1
	}
	low = max(low, 0)
	return low, n - 1 - low
}
