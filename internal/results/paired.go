package results

import (
	"fmt"
	"math"
)

// A Pairing compares two groups of forks seed by seed. Forks with the same seed have the same random numbers.
type Pairing struct {
	Estimate // of the difference
	// Seeds is the number of seeds of each group that would give an unpaired difference of the same precision.
	Seeds float64
}

// Paired compares group i with the first group. ok is false unless both are forks with the same two seeds or more.
func (t *ComparisonTable) Paired(i int) (p Pairing, ok bool) {
	first, group := t.Groups[0], t.Groups[i]
	if len(first.Runs) != len(group.Runs) || len(group.Runs) < 2 {
		return p, false
	}
	var differences []float64
	for a := range group.Runs {
		for b := range first.Runs {
			one, other := &group.Runs[a], &first.Runs[b]
			x, there := one.At(t.Metric, t.At)
			y, here := other.At(t.Metric, t.At)
			if one.Seed == other.Seed && one.Forked && other.Forked && there && here {
				differences = append(differences, x-y)
			}
		}
	}
	if p.Estimate = NewEstimate(differences); p.N != len(group.Runs) {
		return p, false
	}
	es := t.Estimates()
	p.Seeds = float64(p.N) * (es[0].Std*es[0].Std + es[i].Std*es[i].Std) / (p.Std * p.Std)
	return p, true
}

// String returns the mean difference ± half of its 95 % interval, and the number of seeds that pairing saved.
func (p Pairing) String() string {
	text := figure(p.Mean) + " ± " + figure(p.Margin)
	if more := p.Seeds - float64(p.N); more >= 1 && !math.IsInf(more, 0) {
		text += fmt.Sprintf(", as by %.0f seeds without pairs", p.Seeds)
	}
	return text
}
