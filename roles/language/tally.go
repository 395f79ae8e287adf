package language

import (
	"maps"
	"math"
	"slices"
	"strconv"
)

// mostRewards is the maximum number of different values in a tally.
const mostRewards = 64

// A tally is a histogram of rewards. If there are more than mostRewards different values, they are rounded down to
// multiples of a width. The width is the smallest power of two that leaves at most mostRewards values. So the sum of
// tallies does not depend on the distribution of the rewards over ranks.
type tally struct {
	width  float64 // 0 if values are not rounded
	counts map[float64]float64
}

// add adds n rewards of this value.
func (t *tally) add(value, n float64) {
	if t.counts == nil {
		t.counts = map[float64]float64{}
	}
	t.counts[t.round(value)] += n
	for len(t.counts) > mostRewards {
		t.widen(max(2*t.width, math.SmallestNonzeroFloat32))
	}
}

func (t *tally) round(value float64) float64 {
	if t.width > 0 {
		value = math.Floor(value/t.width) * t.width
	}
	return value + 0 // -0 + 0 is 0
}

// widen rounds the values down to multiples of width. It does nothing unless width is larger than the present width.
func (t *tally) widen(width float64) {
	if width <= t.width {
		return
	}
	t.width = width
	before := t.counts
	t.counts = map[float64]float64{}
	for value, n := range before {
		t.counts[t.round(value)] += n
	}
}

// numbers returns the width, and each value with its count.
func (t *tally) numbers() []float64 {
	x := []float64{t.width}
	for _, value := range slices.Sorted(maps.Keys(t.counts)) {
		x = append(x, value, t.counts[value])
	}
	return x
}

// merge adds the numbers of another tally.
func (t *tally) merge(numbers []float64) {
	t.widen(numbers[0])
	for i := 1; i < len(numbers); i += 2 {
		t.add(numbers[i], numbers[i+1])
	}
}

// line returns the tally as metrics: the width, and the count of each value.
func (t *tally) line() (names []string, values []float64) {
	x := t.numbers()
	names, values = append(names, "width"), append(values, x[0])
	for i := 1; i < len(x); i += 2 {
		names = append(names, "reward/"+strconv.FormatFloat(x[i], 'g', -1, 32))
		values = append(values, x[i+1])
	}
	return names, values
}
