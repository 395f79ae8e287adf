package job

import (
	"fmt"
	"slices"
	"testing"
)

// Every group belongs to one worker of each hop, and those workers are pairs that have one in common.
func TestTextPlanCoversEveryGroupOnce(t *testing.T) {
	cases := 0
	for _, groups := range []int{1, 2, 5, 8, 12, 31} {
		for stages := 1; stages <= 4; stages++ {
			for _, workers := range [][]int{{1, 1}, {2, 1}, {3, 2}, {1, 3}, {2, 3, 1, 4}, {5, 4, 3, 1}, {7, 7, 2}} {
				if slices.Max(workers) > groups || groups/workers[0] < stages {
					continue
				}
				p := TextPlan{Groups: groups, Stages: stages}
				for _, w := range workers {
					p.Hops = append(p.Hops, TextHop{"any", w})
				}
				cases++
				checkTextPlan(t, fmt.Sprintf("%d groups, %d stages, %v workers", groups, stages, workers), &p)
			}
		}
	}
	if cases < 40 {
		t.Errorf("%d plans, want many", cases)
	}
}

func checkTextPlan(t *testing.T, what string, p *TextPlan) {
	t.Helper()
	for hop, h := range p.Hops {
		next := 0
		for w := range h.Workers {
			lo, hi := p.Range(hop, w)
			if lo != next || hi <= lo {
				t.Fatalf("%s: worker %d of hop %d has [%d, %d), want some from %d on", what, w, hop, lo, hi, next)
			}
			next = hi
			for g := lo; g < hi; g++ {
				if p.Owner(hop, g) != w {
					t.Fatalf("%s: group %d has owner %d, want %d", what, g, p.Owner(hop, g), w)
				}
			}
			if hop == 0 {
				if last := p.Stage(hi - 1); p.Stage(lo) != 0 || last != p.Stages-1 {
					t.Fatalf("%s: rollout worker %d has stages %d to %d", what, w, p.Stage(lo), last)
				}
				continue
			}
			for from := range p.Hops[hop-1].Workers {
				sends := false
				for g := lo; g < hi; g++ {
					sends = sends || p.Owner(hop-1, g) == from
				}
				if p.Pairs(hop-1, from, w) != sends {
					t.Fatalf("%s: hop %d: pairs says otherwise of %d and %d than %v", what, hop, from, w, sends)
				}
			}
		}
		if next != p.Groups {
			t.Fatalf("%s: hop %d has %d groups", what, hop, next)
		}
	}
}

// The longest group that is left goes to the actor with the fewest tokens that has room: values by hand.
func TestLevelGroups(t *testing.T) {
	for _, c := range []struct {
		tokens []float64
		actors int
		want   []int
	}{
		{[]float64{9, 1, 1, 1}, 2, []int{0, 1, 1, 0}},             // 9 to 0, 1 and 1 to 1, which is full then
		{[]float64{1, 2, 3, 4}, 2, []int{0, 1, 1, 0}},             // 4 to 0, 3 and 2 to 1
		{[]float64{5, 5, 5, 5}, 2, []int{0, 1, 0, 1}},             // equals by number
		{[]float64{4, 7, 6, 1, 2, 3}, 3, []int{2, 0, 1, 0, 1, 2}}, // 7, 6, 4, then 3 to 4, 2 to 6, 1 to 7
		{[]float64{3, 1}, 1, []int{0, 0}},
	} {
		if got := LevelGroups(c.tokens, c.actors); !slices.Equal(got, c.want) {
			t.Errorf("%v for %d actors: %v, want %v", c.tokens, c.actors, got, c.want)
		}
	}
}
