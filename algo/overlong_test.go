package algo

import (
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

func TestOverlongByHand(t *testing.T) {
	o := Overlong{Weight: 2, Safe: 10, Max: 14}
	for n, want := range map[int]float64{1: 0, 10: 0, 11: -0.5, 13: -1.5, 14: -2, 20: -2} {
		test.Equal(t, o.Penalty(n), want, "%d steps", n)
	}
	if got := (Overlong{}).Penalty(5); got != 0 {
		t.Errorf("without a weight: %v", got)
	}
}

// The scores 2, 3, 8, 2 of episodes of 2, 3, 4 and 1 steps are compared after the penalty on their lengths. The scores
// before the penalty decide which groups are equal or out of bounds.
func TestOverlongEpisodesScoreLess(t *testing.T) {
	tr, mask := twoEpochs()
	e := newEpisodes(16)
	e.find(tr, mask)
	x := &experience{Trajectory: tr, Weight: make([]float32, 16), Episodes: e}
	g := groups{size: 2, envs: 2, overlong: Overlong{Weight: 4, Safe: 2, Max: 4}}
	test.OK(t, g.settle(x))
	if want := []float64{2, 1, 4, 2}; !slices.Equal(e.score, want) {
		t.Errorf("scores %v, want %v", e.score, want)
	}
}
