package plan

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// Every group belongs to one worker of each stage. Workers of neighbouring stages are pairs if they have a group in
// common.
func TestPipelineCoversEveryGroupOnce(t *testing.T) {
	cases := 0
	for _, groups := range []int{1, 2, 5, 8, 12, 31} {
		for rounds := 1; rounds <= 4; rounds++ {
			for _, workers := range [][]int{{1, 1}, {2, 1}, {3, 2}, {1, 3}, {2, 3, 1, 4}, {5, 4, 3, 1}, {7, 7, 2}} {
				if slices.Max(workers) > groups || groups/workers[0] < rounds {
					continue
				}
				p := Pipeline{Groups: groups, Rounds: rounds}
				for _, w := range workers {
					p.Stages = append(p.Stages, PipelineStage{Component: "any", Replicas: w})
				}
				cases++
				checkPipeline(t, fmt.Sprintf("%d groups, %d rounds, %v workers", groups, rounds, workers), &p)
			}
		}
	}
	if cases < 40 {
		t.Errorf("%d plans, want many", cases)
	}
}

func checkPipeline(t *testing.T, what string, p *Pipeline) {
	t.Helper()
	for stage, h := range p.Stages {
		next := 0
		for w := range h.Replicas {
			lo, hi := p.Range(stage, w)
			if lo != next || hi <= lo {
				t.Fatalf("%s: worker %d of stage %d has [%d, %d), want some from %d on", what, w, stage, lo, hi, next)
			}
			next = hi
			for g := lo; g < hi; g++ {
				if p.Owner(stage, g) != w {
					t.Fatalf("%s: group %d has owner %d, want %d", what, g, p.Owner(stage, g), w)
				}
			}
			if stage == 0 {
				for round := range p.Rounds {
					from, to := p.Round(w, round)
					if from != lo || to <= from {
						t.Fatalf("%s: round %d of rollout worker %d has [%d, %d), want some from %d on", what, round, w,
							from, to, lo)
					}
					lo = to
				}
				if lo != hi {
					t.Fatalf("%s: the rounds of rollout worker %d end before %d, want %d", what, w, lo, hi)
				}
				continue
			}
			for from := range p.Stages[stage-1].Replicas {
				sends := false
				for g := lo; g < hi; g++ {
					sends = sends || p.Owner(stage-1, g) == from
				}
				if p.Pairs(stage-1, from, w) != sends {
					t.Fatalf("%s: stage %d: pairs says otherwise of %d and %d than %v", what, stage, from, w, sends)
				}
			}
		}
		if next != p.Groups {
			t.Fatalf("%s: stage %d has %d groups", what, stage, next)
		}
	}
}

// The longest remaining group goes to the actor with the fewest tokens that has room. The expected values are computed
// by hand.
func TestBalanceGroups(t *testing.T) {
	for _, c := range []struct {
		tokens []float64
		actors int
		want   []int
	}{
		{[]float64{9, 1, 1, 1}, 2, []int{0, 1, 1, 0}},             // 9 to 0, 1 and 1 to 1, which is then full
		{[]float64{1, 2, 3, 4}, 2, []int{0, 1, 1, 0}},             // 4 to 0, 3 and 2 to 1
		{[]float64{5, 5, 5, 5}, 2, []int{0, 1, 0, 1}},             // equal groups in the order of their numbers
		{[]float64{4, 7, 6, 1, 2, 3}, 3, []int{2, 0, 1, 0, 1, 2}}, // 7 and 1 to 0, 6 and 2 to 1, 4 and 3 to 2
		{[]float64{3, 1}, 1, []int{0, 0}},
	} {
		test.EqualSlices(t, BalanceGroups(c.tokens, c.actors), c.want, "%v for %d actors", c.tokens, c.actors)
	}
}
