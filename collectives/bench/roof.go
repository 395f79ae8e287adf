package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/collectives/bench/stats"
)

// copyRate returns how many bytes per second all ranks of t together read and write when each rank
// copies src to dst at the same time.
func copyRate(ctx context.Context, t *team, dst, src []byte) (float64, error) {
	const samples, atLeast = 5, 2 * time.Millisecond
	n := min(len(dst), len(src))
	if n == 0 {
		return 0, nil
	}
	s := schedule{rule: stats.Rule{MinSamples: samples, MaxSamples: samples, MaxTime: time.Hour}, warmup: 1,
		step: atLeast / stats.StepsPerSample, stop: func() bool { return false }}
	a := &arm{call: func(context.Context, int) error { copy(dst[:n], src[:n]); return nil }}
	if _, err := s.run(ctx, t, []*arm{a}, false); err != nil {
		return 0, err
	}
	sum := 0.0
	for _, rate := range a.rates(2 * float64(n)) {
		sum += rate
	}
	return sum, nil
}

// measureRoof returns the rate, in bytes per second, at which all ranks at once copy memory that
// does not fit into the caches. n is how many bytes each rank copied. measureRoof frees that memory.
func (r *Run) measureRoof(ctx context.Context) (rate float64, n int, err error) {
	n = r.budget.beyondCaches()
	both, free, err := mapped(2 * n)
	if err != nil {
		return 0, 0, fmt.Errorf("two buffers of %s for the memory roof: %w", report.Bytes(int64(n)), err)
	}
	poisonAll(both) // its pages are there, and differ from the system's one page of zeros
	rate, err = copyRate(ctx, r.all, both[:n], both[n:])
	return rate, n, errors.Join(err, free())
}
