package algo

import "math"

// means holds metrics that are means. Each mean has two elements: a sum, and the number of samples in the sum.
type means []float64

// add adds a sum over count samples to mean i.
func (m means) add(i int, sum, count float64) {
	m[2*i] += sum
	m[2*i+1] += count
}

// sum and count return the two elements of mean i.
func (m means) sum(i int) float64   { return m[2*i] }
func (m means) count(i int) float64 { return m[2*i+1] }

// mean returns mean i, or None if nothing was added to it.
func (m means) mean(i int) float64 { return quotient(m[2*i], m[2*i+1]) }

// metricSums collects the sums behind an update's metrics in one slice, so that one reduction sums
// them over all replicas.
type metricSums struct {
	sums []float64 // memory of the fields below, side by side
	means
	fit   []float64 // n, Σr, Σr², Σe, Σe² of returns r and errors e of the critic
	most  []float64 // maxima: one element for each replica, because Replicas can only add
	extra []float64 // sums for the caller's use
}

// Indices of the means of metricSums.
const (
	policyLoss = iota
	policyLossAbs
	ratio
	ratioAbs
	clippedRatio
	dualClippedRatio
	approxKL
	clipFraction
	entropy
	valueLoss
	valueClipRatio
	klLoss
	behaveKL
	behaveClipped
	versionMean
	rewardMean
	advantageMean
	returnMean
	numMeans
)

// Indices of the maxima of metricSums.
const (
	advantageMax = iota
	advantageMin // maximum of the negative advantage; returnMin: of the negative return
	returnMax
	returnMin
	logRatioMax
	numMaxima
)

func newMetricSums(replicas, extra int) *metricSums {
	t := &metricSums{sums: make([]float64, 2*numMeans+5+numMaxima*replicas+extra)}
	rest := t.sums
	cut := func(n int) (piece []float64) { piece, rest = rest[:n:n], rest[n:]; return piece }
	t.means, t.fit, t.most, t.extra = cut(2*numMeans), cut(5), cut(numMaxima*replicas), cut(extra)
	return t
}

func (t *metricSums) reset() { clear(t.sums) }

// setMax sets maximum i of one replica to x.
func (t *metricSums) setMax(i, replica int, x float64) { t.most[i*len(t.most)/numMaxima+replica] = x }

// max returns maximum i over all replicas, or None if no replica set it.
func (t *metricSums) max(i int) float64 {
	n := len(t.most) / numMaxima
	most := math.Inf(-1)
	for _, x := range t.most[i*n : (i+1)*n] {
		most = max(most, x)
	}
	if math.IsInf(most, -1) {
		return None()
	}
	return most
}

// min returns the minimum that is stored as maximum i of negative values. It returns None if no replica set it.
func (t *metricSums) min(i int) float64 {
	most := t.max(i)
	if IsNone(most) {
		return most
	}
	return -most
}

// addFit adds the return of one sample, and the critic's error for this sample.
func (t *metricSums) addFit(ret, err float64) {
	t.fit[0]++
	t.fit[1] += ret
	t.fit[2] += ret * ret
	t.fit[3] += err
	t.fit[4] += err * err
}

// explainedVariance returns 1 - var(e)/var(r): 1 for a perfect critic, 0 for a critic no better than a constant. It
// returns None if all returns are equal.
func (t *metricSums) explainedVariance() float64 {
	n := t.fit[0]
	variance := func(sum, sq float64) float64 { return max(sq/n-sum/n*sum/n, 0) }
	all := variance(t.fit[1], t.fit[2])
	if n < 2 || all == 0 {
		return None()
	}
	return 1 - variance(t.fit[3], t.fit[4])/all
}
