package emulate

import (
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/rlinf/rlinf/roles/planner"
)

// TestVirtualRollout: the simulation agrees with the formula, without skew exactly.
func TestVirtualRollout(t *testing.T) {
	for _, skew := range []float64{0, 0.3} {
		for _, ranks := range []int{8, 64, 512} {
			s := example()
			s.Ranks, s.Envs, s.Skew, s.Steps = ranks, 4*ranks, skew, 32
			want, got := SlowestRollout(&s), VirtualRollout(&s)
			t.Logf("skew %g, %d ranks: formula %g s, simulation %g s", skew, ranks, want, got)
			if limit := 0.03 * skew / 0.3; math.Abs(got/want-1) > limit+1e-9 {
				t.Errorf("skew %g, %d ranks: simulation %g s, formula %g s", skew, ranks, got, want)
			}
		}
	}
}

// TestThousandsOfRanks simulates an iteration of 4096 ranks twice.
func TestThousandsOfRanks(t *testing.T) {
	s := example()
	s.Ranks, s.Envs, s.Skew, s.Steps = 4096, 4*4096, 0.3, 128
	m, p, l := s.toPlanner()
	var got [2]float64
	for i := range got {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		r := planner.Predict(m, p, l, planner.Options{Noise: true, Seed: 1, Whole: true})
		runtime.ReadMemStats(&after)
		got[i] = r.Seconds
		bytes := after.TotalAlloc - before.TotalAlloc
		t.Logf("%d events in %v, %d MiB allocated", r.Events, time.Since(start), bytes>>20)
		if bytes > 2<<30 {
			t.Errorf("%d bytes allocated", bytes)
		}
	}
	if got[0] != got[1] {
		t.Errorf("%g s, then %g s", got[0], got[1])
	}
}
