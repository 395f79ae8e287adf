package env

import (
	"math"
	"slices"
	"testing"
	"time"
)

// Durations lie between their bounds a and b, have the mean ab/(b-a) ln(b/a), and depend on the seed alone.
func TestDelayDurations(t *testing.T) {
	const least, most, n = time.Millisecond, 50 * time.Millisecond, 200000
	draw := func(seed uint64) (all []time.Duration) {
		w := NewDelay(nil, least, most)
		w.seed = seed
		for step := range uint64(n) {
			all = append(all, w.duration(step))
		}
		return all
	}
	first := draw(3)
	var sum, long float64
	for _, d := range first {
		if d < least || d > most {
			t.Fatalf("a step of %v, want one in [%v, %v]", d, least, most)
		}
		sum += d.Seconds() * 1e3
		if d > 10*time.Millisecond {
			long++
		}
	}
	if mean, want := sum/n, 50.0/49*math.Log(50); math.Abs(mean-want) > 0.02*want {
		t.Errorf("mean %.3f ms, want %.3f", mean, want)
	}
	if share, want := long/n, (0.1-0.02)/(1-0.02); math.Abs(share-want) > 0.02*want {
		t.Errorf("a share of %.4f is longer than 10 ms, want %.4f", share, want)
	}
	if !slices.Equal(first, draw(3)) || slices.Equal(first[:10], draw(4)[:10]) {
		t.Error("want the same durations of the same seed, and others of another")
	}
	if d := NewDelay(nil, least, 0).duration(7); d != least {
		t.Errorf("without a maximum: %v", d)
	}
}
