package algo_test

import (
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/test"
)

// An update allocates nothing per minibatch: 64 minibatches allocate no more than 8.
func TestUpdateAllocations(t *testing.T) {
	allocs := func(epochs int) float64 {
		p := mustPPO(t, ppoSetup(func(s *algo.Setup) { s.Config.UpdateEpoch, s.MicroBatch = epochs, 16 }))
		r := algo.RandomRollout(0, 16, 0, 8)
		return testing.AllocsPerRun(5, func() {
			test.OK(t, p.Prepare(&r))
			test.Must(p.Update(r))(t)
		})
	}
	few, many := allocs(2), allocs(16)
	if few != many || many > 10 {
		t.Errorf("%v allocations with 2 epochs, %v with 16", few, many)
	}
}

func BenchmarkUpdate(b *testing.B) {
	p := mustPPO(b, ppoSetup(func(s *algo.Setup) {
		s.Steps, s.Envs, s.GlobalBatch, s.Config.UpdateEpoch = 128, 4, 128, 4
	}))
	r := algo.RandomRollout(0, 128, 0, 4)
	b.ReportAllocs()
	for b.Loop() {
		test.OK(b, p.Prepare(&r))
		test.Must(p.Update(r))(b)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*512), "ns/env-step")
}
