package advice

import (
	"math/rand/v2"
	"testing"

	"github.com/rlinf/rlinf/roles/loop"
)

// stepOf returns the times of an iteration of which half is a rollout. A phase that does not matter takes its time
// anyhow.
func stepOf(seconds float64, draw *rand.Rand, noise float64) (t times) {
	t[loop.GenerateRollouts] = seconds / 2 * (1 + noise*draw.NormFloat64())
	t[loop.WholeStep] = t[loop.GenerateRollouts] + seconds/2
	t[loop.SyncWeights] = seconds / 1000 * (1 + 10*draw.Float64())
	return t
}

// TestWindow: iterations before a change leave the window soon, and noise and single slow iterations change nothing.
func TestWindow(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name    string
		seconds func(n int) float64
		noise   float64
		changes int // 0: none, else the iteration before which it must be found
	}{
		{"noise", func(int) float64 { return 1 }, 0.1, 0},
		{"single ones", func(n int) float64 { return 1 + float64(n%7/6)*5 }, 0.02, 0},
		{"twice as long", func(n int) float64 { return 1 + float64(n/40) }, 0.1, 44},
		{"half as long", func(n int) float64 { return 1 / float64(1+n/40) }, 0.1, 44},
		{"a fifth longer", func(n int) float64 { return 1 + float64(n/40)/5 }, 0.02, 50},
	} {
		for range 20 {
			var w window
			at := 0
			for n := range 79 {
				changed := false
				if w, changed = w.add(stepOf(c.seconds(n), draw, c.noise)); changed && at == 0 {
					at = n
				}
				if len(w) > widest {
					t.Fatalf("%d iterations", len(w))
				}
			}
			if c.changes == 0 && at > 0 || c.changes > 0 && (at < 41 || at >= c.changes) {
				t.Errorf("%s: a change at %d", c.name, at)
			}
			if m := w.medians(); c.changes > 0 && m.differs(&times{loop.WholeStep: c.seconds(78),
				loop.GenerateRollouts: c.seconds(78) / 2}, 0.1) {
				t.Errorf("%s: medians %v", c.name, m)
			}
		}
	}
}

// TestDoubt: the error of medians is that of normal times.
func TestDoubt(t *testing.T) {
	draw := rand.New(rand.NewPCG(3, 4))
	sum := 0.0
	for range 200 {
		var w window
		for range 16 {
			w = append(w, stepOf(1, draw, 0.1))
		}
		m := w.medians()
		sum += w.doubt(&m) / 200
	}
	if want := 1.25 * 0.1 / 4; sum < 0.8*want || sum > 1.2*want { // √(π/2)·σ/√16
		t.Errorf("%v, want %v", sum, want)
	}
}
