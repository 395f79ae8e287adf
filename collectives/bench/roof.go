package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlinf/rlinf/collectives/bench/report"
	"github.com/rlinf/rlinf/collectives/bench/stats"
)

// copyRate returns how many bytes per second all ranks of t together read and write when each
// copies n bytes from src to dst at the same time. It is the median of several rounds of the sum
// over the ranks.
func copyRate(ctx context.Context, t *team, dst, src []byte) (float64, error) {
	const rounds, atLeast = 5, 2 * time.Millisecond
	n := min(len(dst), len(src))
	if n == 0 {
		return 0, nil
	}
	repeat := 1
	if err := t.barrier(ctx); err != nil {
		return 0, err
	}
	for {
		start := time.Now()
		for range repeat {
			copy(dst[:n], src[:n])
		}
		slowest := []float64{float64(time.Since(start))}
		if err := t.max(ctx, slowest); err != nil {
			return 0, err
		}
		if slowest[0] >= float64(atLeast) {
			break
		}
		repeat *= 2
	}
	rates := make([]float64, 0, rounds)
	for range rounds {
		if err := t.barrier(ctx); err != nil {
			return 0, err
		}
		start := time.Now()
		for range repeat {
			copy(dst[:n], src[:n])
		}
		all := make([]float64, t.size())
		all[t.rank()] = 2 * float64(n) * float64(repeat) / time.Since(start).Seconds()
		if err := t.max(ctx, all); err != nil {
			return 0, err
		}
		sum := 0.0
		for _, r := range all {
			sum += r
		}
		rates = append(rates, sum)
	}
	return stats.Median(rates), nil
}

// measureRoof returns the rate of copies out of the caches' reach by all ranks at once, in bytes per
// second, and how many bytes each copied. It gives the memory back.
func (r *Run) measureRoof(ctx context.Context) (rate float64, n int, err error) {
	n = r.room.beyondCaches()
	both, free, err := mapped(2 * n)
	if err != nil {
		return 0, 0, fmt.Errorf("two buffers of %s for the memory roof: %w", report.Bytes(int64(n)), err)
	}
	poisonAll(both) // its pages are there, and differ from the system's one page of zeros
	rate, err = copyRate(ctx, r.all, both[:n], both[n:])
	return rate, n, errors.Join(err, free())
}
