package algo

import (
	"slices"
	"testing"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A row's goals are the numbers some steps later and at the end, both of its own episode.
func TestGoals(t *testing.T) {
	const m = policy.GoalSteps + 4
	var d tensor.Dict
	terminated, truncated := make([]byte, m), make([]byte, m)
	truncated[1], terminated[m-1] = 1, 1
	x, y := tensor.New(tensor.F32, m, 1), tensor.New(tensor.F32, m, 2)
	for i := range m {
		x.F32()[i], y.F32()[2*i], y.F32()[2*i+1] = float32(i), float32(100+i), float32(200+i)
	}
	d.Set("terminated", tensor.Of(terminated, tensor.U8, m))
	d.Set("truncated", tensor.Of(truncated, tensor.U8, m))
	d.Set("observation.x", x)
	d.Set("observation.y", y)
	g := goals(d, []string{"y", "x"})
	for row, want := range map[int][2]int{0: {1, 1}, 1: {1, 1}, 2: {2 + policy.GoalSteps, m - 1}, 3: {m - 1, m - 1}} {
		soon, end := float32(want[0]), float32(want[1])
		if got, want := g.At(row).F32(), []float32{100 + soon, 200 + soon, soon, 100 + end, 200 + end,
			end}; !slices.Equal(got, want) {
			t.Errorf("row %d: %v, want %v", row, got, want)
		}
	}
}
