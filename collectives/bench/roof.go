package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/collectives/bench/stats"
)

// copyRate returns the memory bandwidth in 10⁹ bytes per second while every rank of t copies its src to its dst. It
// counts the bytes that all ranks read and write. src and dst have the same length.
func copyRate(ctx context.Context, t *team, dst, src []byte) (float64, error) {
	const samples, atLeast = 5, 2 * time.Millisecond
	s := schedule{rule: stats.StopRule{MinSamples: samples, MaxSamples: samples, MaxTime: time.Hour}, warmup: 1,
		step: atLeast / stats.StepsPerSample, stop: func() bool { return false }}
	a := &arm{call: func(context.Context, int) error { copy(dst, src); return nil }}
	if _, err := s.run(ctx, t, []*arm{a}, false); err != nil {
		return 0, err
	}
	return sum(a.rates(2*float64(len(src)))) / 1e9, nil
}

// measureRoof measures the roof of the machine: the copyRate of all ranks in memory that does not fit into the caches.
func (r *Run) measureRoof(ctx context.Context) error {
	n := r.budget.beyondCaches()
	both, free, err := mapped(2 * n)
	if err != nil {
		return fmt.Errorf("two buffers of %s for the memory roof: %w", report.Bytes(int64(n)), err)
	}
	poisonAll(both) // pages that were never written may all be one page of zeros
	m := &r.rep.Machine
	m.RoofSize = int64(n)
	m.Roof, err = copyRate(ctx, r.all, both[:n], both[n:])
	return errors.Join(err, free())
}
