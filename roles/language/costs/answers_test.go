package costs

import (
	"slices"
	"testing"
)

// TestSizes: all prompts are measured, for any number of ranks, or a sample if the answers are too many.
func TestSizes(t *testing.T) {
	for _, c := range []struct {
		prompts, group, ranks int
		want                  []int
	}{
		{64, 8, 1, []int{32, 64}},
		{64, 8, 4, []int{8, 32, 64}},
		{5, 8, 4, []int{1, 2, 5}},
		{2, 8, 8, []int{1, 2}},
		{1, 8, 1, []int{1}},
		{8192, 8, 2, []int{32, 64, 128}},
		{4, 2048, 2, []int{1}},
	} {
		if got := sizesOf(c.prompts, c.group, c.ranks); !slices.Equal(got, c.want) {
			t.Errorf("%d prompts with %d answers on %d ranks: %v, want %v", c.prompts, c.group, c.ranks, got, c.want)
		}
	}
}
