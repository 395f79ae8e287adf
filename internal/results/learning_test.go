package results_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlinf/rlinf/internal/results"
)

// TestJudge: of 100 drawn curves of each kind, the verdict is right on at least 95. The curves have 10 to 60 points,
// and noise of 2 to 8 % of their range.
func TestJudge(t *testing.T) {
	type draw = func(r *rand.Rand, x, turn float64) float64 // x from 0 to 1
	line := func(_ *rand.Rand, x, _ float64) float64 { return x }
	for _, c := range []struct {
		name     string
		from, to int // points
		curve    draw
		noise    float64 // at most, of the range
		want     []results.LearningOutcome
		least    float64 // of the range
	}{
		{"a line", 10, 60, line, 0.08, []results.LearningOutcome{results.Rises}, 0},
		{"slower and slower", 10, 60, func(_ *rand.Rand, x, _ float64) float64 { return 1 - math.Exp(-2*x) }, 0.08,
			[]results.LearningOutcome{results.Rises}, 0},
		{"a late start", 10, 60, func(_ *rand.Rand, x, _ float64) float64 { return 1 / (1 + math.Exp(8-10*x)) }, 0.05,
			[]results.LearningOutcome{results.Rises}, 0},
		{"noise alone", 6, 60, func(*rand.Rand, float64, float64) float64 { return 0 }, 1,
			[]results.LearningOutcome{results.Flat}, 0},
		{"a constant", 6, 60, func(*rand.Rand, float64, float64) float64 { return 9 }, 0,
			[]results.LearningOutcome{results.Flat}, 0},
		{"early learning, then no more", 12, 60, func(_ *rand.Rand, x, _ float64) float64 {
			return min(1, 5*x)
		}, 0.05, []results.LearningOutcome{results.Holds}, 0},
		{"a ceiling", 16, 60, func(r *rand.Rand, x, turn float64) float64 {
			// It is reached at 0.45 to 0.75, with less noise there.
			if top := turn + 0.05; x < top {
				return max(0, 1-(top-x)/0.3)
			}
			return 1
		}, 0.01, []results.LearningOutcome{results.Holds}, 0},
		{"a noisy way to a ceiling", 16, 60, func(r *rand.Rand, x, turn float64) float64 {
			if top := turn + 0.05; x < top {
				return max(0, 1-(top-x)/0.3) + 0.1*r.NormFloat64()
			}
			return 1
		}, 0.01, []results.LearningOutcome{results.Holds}, 0},
		{"a sudden collapse", 10, 60, func(_ *rand.Rand, x, turn float64) float64 {
			if x > turn {
				return 0.1
			}
			return min(1, 3*x)
		}, 0.08, []results.LearningOutcome{results.Collapsed}, 0},
		{"a slow collapse", 10, 60, func(_ *rand.Rand, x, turn float64) float64 {
			if x > turn {
				return max(0, 1-6*(x-turn))
			}
			return min(1, 3*x)
		}, 0.08, []results.LearningOutcome{results.Collapsed}, 0},
		{"a slow fall", 10, 60, func(_ *rand.Rand, x, _ float64) float64 { return 1 - x }, 0.08,
			[]results.LearningOutcome{results.Falls}, 0},
		{"too short", 1, 5, line, 0.08, []results.LearningOutcome{results.TooFew}, 0},
		{"a rise that counts", 10, 60, line, 0.08, []results.LearningOutcome{results.Rises}, 0.4},
		{"a small rise", 10, 60, line, 0.08, []results.LearningOutcome{results.Flat}, 1.2},
		{"a small fall", 10, 60, func(_ *rand.Rand, x, _ float64) float64 { return 1 - x }, 0.08,
			[]results.LearningOutcome{results.Flat}, 1.2},
		{"a small step", 10, 60, func(_ *rand.Rand, x, turn float64) float64 {
			if x > turn {
				return 1
			}
			return 0
		}, 0.01, []results.LearningOutcome{results.Flat}, 1.2},
	} {
		r := rand.New(rand.NewPCG(1, 2))
		right := map[bool]int{}
		for range 100 {
			n := c.from + r.IntN(c.to-c.from+1)
			turn, scale, shift := 0.4+0.3*r.Float64(), math.Exp(6*r.Float64()), 100*r.NormFloat64()
			noise := c.noise * (0.25 + 0.75*r.Float64())
			better, worse := make([]float64, n), make([]float64, n)
			for i := range better {
				x := float64(i) / float64(max(n-1, 1))
				better[i] = shift + scale*(c.curve(r, x, turn)+noise*r.NormFloat64())
				worse[i] = -better[i]
			}
			l := results.Judge(better, false, c.least*scale)
			right[l.Verdict == c.want[0]]++
			m := results.Judge(worse, true, c.least*scale)
			if m.Verdict != l.Verdict || m.From != l.From || m.Best != -l.Best || m.End != -l.End {
				t.Fatalf("%s: a loss has another verdict: %+v, %+v", c.name, l, m)
			}
		}
		if t.Logf("%s: %d of 100", c.name, right[true]); right[true] < 95 {
			t.Errorf("%s: right on %d of 100", c.name, right[true])
		}
	}
	if l := results.Judge(nil, false, 0); l.Verdict != results.TooFew {
		t.Errorf("nothing: %+v", l)
	}
}
