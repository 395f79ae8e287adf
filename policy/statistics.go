package policy

import (
	"math"

	"github.com/rlinf/rlinf/tensor"
)

// Names of the buffers that hold the running statistics for normalisation. The buffers are part of the parameters.
const (
	obsMean  = "obs.mean"  // [numbers]
	obsVar   = "obs.var"   // [numbers]
	obsCount = "obs.count" // [1]

	obsVariance = 1e-8 // added to the variance before the square root
)

// init sets mean 0 and variance 1.
func (o *observations) init() {
	if o.normalizes {
		_, variance, _ := o.stats()
		for i := range variance {
			variance[i] = 1
		}
	}
}

func (o *observations) stats() (mean, variance, count []float64) {
	b := o.params.Buffers
	return b.Must(obsMean).F64(), b.Must(obsVar).F64(), b.Must(obsCount).F64()
}

func (o *observations) statsLen() int {
	if !o.normalizes {
		return 0
	}
	return 1 + 2*o.numbers
}

// add adds to sums the number of rows, then Σ(x-m) for each element, then Σ(x-m)² for each element. m is the current
// mean. The subtraction of m keeps precision if values are far from 0 and vary little.
func (o *observations) add(sums []float64, obs tensor.Dict) error {
	n, err := Rows(o.fields, obs, math.MaxInt)
	if err != nil || !o.normalizes {
		return err
	}
	mean, _, _ := o.stats()
	s1, s2 := sums[1:1+o.numbers], sums[1+o.numbers:1+2*o.numbers]
	sums[0] += float64(n)
	off := 0
	for i := range o.vectors {
		v := &o.vectors[i]
		width, t := v.Dim(), obs.Must(v.Name)
		if v.low == nil {
			for j, x := range t.F32() {
				addTo(s1, s2, mean, off+j%width, x)
			}
		} else {
			for j, b := range t.U8() {
				addTo(s1, s2, mean, off+j%width, v.number(b, j%width))
			}
		}
		off += width
	}
	return nil
}

func addTo(s1, s2, mean []float64, k int, x float32) {
	d := float64(x) - mean[k]
	s1[k] += d
	s2[k] += d * d
}

// merge updates the running mean and variance with n new values, whose sums are given. The running statistics cover
// count earlier values (Chan, Golub and LeVeque 1983):
//
//	δ = Σ(x-m)/n,    m' = m + δ n/(count+n),    M2' = M2 + Σ(x-m)² - n δ² + δ² n·count/(count+n),    var = M2/count
func (o *observations) merge(sums []float64) {
	n := sums[0]
	if !o.normalizes || n == 0 {
		return
	}
	mean, variance, count := o.stats()
	c := count[0]
	for k := range mean {
		delta := sums[1+k] / n
		m2 := c*variance[k] + max(0, sums[1+o.numbers+k]-n*delta*delta) + delta*delta*n*c/(c+n)
		mean[k] += delta * n / (c + n)
		variance[k] = m2 / (c + n)
	}
	count[0] = c + n
}
