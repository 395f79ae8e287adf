package costs

import (
	"slices"
	"testing"
)

// TestSizes: all prompts are measured, for any number of ranks.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		prompts, ranks int
		want           []int
	}{
		{64, 1, []int{32, 64}},
		{64, 4, []int{8, 32, 64}},
		{5, 4, []int{1, 2, 5}},
		{2, 8, []int{1, 2}},
		{1, 1, []int{1}},
	} {
		if got := sizesOf(c.prompts, c.ranks); !slices.Equal(got, c.want) {
			t.Errorf("%d prompts on %d ranks: %v, want %v", c.prompts, c.ranks, got, c.want)
		}
	}
}
