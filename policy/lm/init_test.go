package lm

import (
	"slices"
	"testing"

	"github.com/rlinf/rlinf/policy/nn"
)

// A slice of a new weight has the numbers that the whole weight has there, even where a stream ends inside the slice.
func TestInitOfSlices(t *testing.T) {
	for _, c := range []struct {
		shape []int
		s     nn.Slice
	}{
		{[]int{3, 5}, nn.Slice{Axis: 1, From: 1, To: 4, Whole: 5}},
		{[]int{3, 5}, nn.Slice{Axis: 0, From: 1, To: 3, Whole: 3}},
		{[]int{7}, nn.Slice{Axis: 0, From: 3, To: 6, Whole: 7}},
		{[]int{1500, 1501}, nn.Slice{Axis: 0, From: 650, To: 1450, Whole: 1500}},
		{[]int{1500, 1501}, nn.Slice{Axis: 1, From: 1001, To: 1300, Whole: 1501}},
	} {
		n := 1
		for _, d := range c.shape {
			n *= d
		}
		whole := make([]float32, n)
		fillNormal(whole, nn.Slice{}.Block(c.shape), 0.5, 3, 4)
		b := c.s.Block(c.shape)
		part := make([]float32, b.Len*b.Count)
		fillNormal(part, b, 0.5, 3, 4)
		nn.Overlap(b, nn.Slice{}.Block(c.shape), func(x, y, n int) {
			if !slices.Equal(part[x:x+n], whole[y:y+n]) {
				t.Fatalf("slice %v of %v has other numbers at %d", c.s, c.shape, y)
			}
		})
		if slices.Contains(part, 0) {
			t.Errorf("slice %v of %v has elements that nobody set", c.s, c.shape)
		}
	}
}
