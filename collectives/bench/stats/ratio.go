package stats

import "slices"

// RatioInterval compares two lists of positive samples. ratio is the median of the ratios a_i/b_j of all pairs (the
// estimator of Hodges and Lehmann 1963, on logarithms). [low, high] is its 95 % confidence interval by the test of Mann
// and Whitney. The interval needs lists of at least 4 and 4 samples, or of 3 and 5. With fewer samples, ok is false,
// and [low, high] is the range of all ratios.
func RatioInterval(a, b []float64) (ratio, low, high float64, ok bool) {
	var ratios []float64
	for _, x := range a {
		for _, y := range b {
			ratios = append(ratios, x/y)
		}
	}
	slices.Sort(ratios)
	n := len(ratios)
	if n == 0 {
		return 0, 0, 0, false
	}
	at := -1 // the largest U with a probability of at most 5 %
	for at+1 < n/2 && exactP(len(a), len(b), at+1) <= 0.05 {
		at++
	}
	ok = at >= 0
	at = max(at, 0)
	return percentile(ratios, 50), ratios[at], ratios[n-1-at], ok
}
