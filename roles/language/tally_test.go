package language

import (
	"fmt"
	"math"
	"testing"
)

// A tally of few rewards counts each value.
func TestFewRewards(t *testing.T) {
	var all tally
	for _, value := range []float32{1, 0.1, 1, float32(math.Copysign(0, -1)), 0, -0.5} {
		all.add(float64(value), 1)
	}
	if names, values := all.line(); fmt.Sprint(names, values) !=
		"[width reward/-0.5 reward/0 reward/0.1 reward/1] [0 1 2 1 2]" {
		t.Error(names, values)
	}
}

// A tally of many rewards is the same over any number of ranks, counts every reward, and has the smallest possible
// width.
func TestManyRewards(t *testing.T) {
	rewards := make([]float64, 1000)
	for i := range rewards {
		rewards[i] = float64(float32(math.Sin(float64(i))) * 3)
	}
	rewards[100] = math.Copysign(0, -1) // the same as rewards[0]
	for _, n := range []int{20, 64, 65, 130, 1000} {
		var whole tally
		for _, r := range rewards[:n] {
			whole.add(r, 1)
		}
		want := whole.numbers()
		for _, ranks := range []int{1, 2, 3, 8} {
			parts := make([]tally, ranks)
			for i, r := range rewards[:n] {
				parts[i*i%ranks].add(r, 1)
			}
			var all tally
			for i := range parts {
				all.merge(parts[i].numbers())
			}
			if got := all.numbers(); fmt.Sprint(got) != fmt.Sprint(want) { // as texts, because -0 == 0
				t.Errorf("%d rewards on %d ranks: %v, want %v", n, ranks, got, want)
			}
		}
		counts, finer := map[float64]float64{}, map[float64]bool{}
		for _, r := range rewards[:n] {
			value := r
			if w := whole.width; w > 0 {
				value = math.Floor(r/w) * w
				finer[math.Floor(r/(w/2))] = true
			}
			counts[value]++
		}
		for i := 1; i < len(want); i += 2 {
			if counts[want[i]] != want[i+1] {
				t.Errorf("%d rewards: %v of %v, want %v", n, want[i+1], want[i], counts[want[i]])
			}
		}
		if len(want) != 1+2*len(counts) || (whole.width > 0) != (n > mostRewards) ||
			n > mostRewards && len(finer) <= mostRewards {
			t.Errorf("%d rewards: %d values of width %v, %d of half of it", n, len(counts), whole.width, len(finer))
		}
	}
}
