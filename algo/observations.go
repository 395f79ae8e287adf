package algo

import (
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// ObservationStats is a policy that normalises observations by statistics, which an algorithm
// gathers over all replicas.
type ObservationStats interface {
	// StatsLen returns how many sums describe a batch, or 0 if observations are not normalised.
	StatsLen() int
	// AddStats adds the sums of the rows of obs to sums.
	AddStats(sums []float64, obs tensor.Dict) error
	// MergeStats updates the statistics with sums over all replicas.
	MergeStats(sums []float64)
}

// observationStats returns the statistics of a policy, or nil if the policy normalises nothing.
func observationStats(p policy.Policy) ObservationStats {
	if o, ok := p.(ObservationStats); ok && o.StatsLen() > 0 {
		return o
	}
	return nil
}

// addObservations adds the observations of a rollout to sums, in pieces that b gathers. Samples
// with mask 0 do not count. rows is scratch space, for the indices of all samples.
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
