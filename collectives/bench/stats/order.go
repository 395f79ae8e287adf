package stats

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Percentile returns the p-th percentile of x, 0 <= p <= 100: of the n samples in order, the one at
// 1 + (n-1)·p/100, interpolated between its neighbours (definition 7 of Hyndman and Fan 1996, that of R and NumPy).
// Gonum has definitions 1 and 4 alone, whose median of an even number of samples is not the mean of
// the two in the middle. NaN when x is empty.
func Percentile(x []float64, p float64) float64 {
	return percentile(slices.Sorted(slices.Values(x)), p)
}

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
	return sorted[low] // also where its neighbour is infinite
}

// Median returns the 50th percentile of x.
func Median(x []float64) float64 { return Percentile(x, 50) }

// A Summary describes the samples of one measurement for a report, in their unit.
type Summary struct {
	N        int
	Min, Max float64
	Median   float64
	// the 95 % confidence interval of the median; the extremes below 6 samples, which cannot give
	// one
	CILow, CIHigh float64
	P90, P99      float64
}

// Summarize returns the Summary of x; all of it is NaN when x is empty.
func Summarize(x []float64) Summary {
	sorted := slices.Sorted(slices.Values(x))
	s := Summary{N: len(x), Min: percentile(sorted, 0), Max: percentile(sorted, 100), Median: percentile(sorted, 50),
		P90: percentile(sorted, 90), P99: percentile(sorted, 99), CILow: math.NaN(), CIHigh: math.NaN()}
	if len(x) > 0 {
		low, high := medianRanks(len(x))
		s.CILow, s.CIHigh = sorted[low], sorted[high]
	}
	return s
}

// RelativeCI returns the larger distance of the interval's ends from the median, as a part of the
// median: 0.02 is ±2 %. Infinite below 6 samples.
func (s Summary) RelativeCI() float64 {
	if s.N < minForCI {
		return math.Inf(1)
	}
	if s.CILow == s.CIHigh {
		return 0
	}
	return max(s.Median-s.CILow, s.CIHigh-s.Median) / math.Abs(s.Median)
}

// minForCI is the least number of samples whose extremes enclose the median with 95 %: 1 - 2·(1/2)⁶
// = 0.97.
const minForCI = 6

// medianRanks returns the indices, in n samples in order, between which the median of their
// distribution lies with at least 95 %. The number of samples below that median is binomial,
// whatever the distribution (Le Boudec, "Performance Evaluation of Computer and Communication
// Systems", 2010, §2.2.2): exact up to 70 samples, by the normal approximation beyond.
func medianRanks(n int) (low, high int) {
	if n <= 70 {
		// The largest `low` with P(at most low samples below the median) <= 2.5 %.
		below := distuv.Binomial{N: float64(n), P: 0.5}
		for low = -1; below.CDF(float64(low+1)) <= 0.025; low++ {
		}
	} else {
		low = int((float64(n)-1.96*math.Sqrt(float64(n)))/2) - 1
	}
	low = max(low, 0)
	return low, n - 1 - low
}
