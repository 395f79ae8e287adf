package bench

import (
	"context"
	"time"

	"github.com/rlinf/rlinf/collectives/bench/stats"
)

// copyRate returns how many bytes per second all ranks of t together read and write when each
// copies n bytes from src to dst, at the same time, again and again: the median of several rounds
// of the sum over the ranks.
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

// beyondCaches returns how large a rank's buffer must be for the copies of all ranks of a host to
// miss its last-level cache.
func beyondCaches(cache int64, ranks int) int {
	const least, most = 4 << 20, 128 << 20
	return int(min(most, max(least, 2*cache/int64(max(1, ranks)))))
}
