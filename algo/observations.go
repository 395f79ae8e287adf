package algo

import (
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// ObservationStats is a policy that normalises observations by running statistics. An algorithm gathers them over all
// replicas.
type ObservationStats interface {
	// StatsLen returns the length of sums, or 0 if observations are not normalised.
	StatsLen() int
	// AddStats adds the statistics of the rows of obs to sums.
	AddStats(sums []float64, obs tensor.Dict) error
	// MergeStats updates the statistics with sums over all replicas.
	MergeStats(sums []float64)
}

// observationStats returns p as ObservationStats, or nil if p does not normalise observations.
func observationStats(p policy.Policy) ObservationStats {
	if o, ok := p.(ObservationStats); ok && o.StatsLen() > 0 {
		return o
	}
	return nil
}

// addObservations adds the statistics of a rollout's observations to sums. It skips samples with mask 0. It copies
// samples to b, one micro-batch at a time. rows is scratch space with an element for each sample.
func addObservations(sums []float64, o ObservationStats, rollout tensor.Dict, b *minibatch, rows []int32) error {
	var mask []uint8
	if t, ok := rollout.Get(FieldMask); ok {
		mask = t.U8()
	}
	samples, micro := len(rows), b.action.Dim(0)
	rows = rows[:0]
	for i := range samples {
		if mask == nil || mask[i] != 0 {
			rows = append(rows, int32(i))
		}
	}
	for len(rows) > 0 {
		n := min(len(rows), micro)
		b.gather(rows[:n])
		if err := o.AddStats(sums, b.obs.Slice(0, n)); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}
