package algo_test

import (
	"math"
	"testing"

	"github.com/rlinf/rlinf/algo"
)

func TestSchedule(t *testing.T) {
	for _, c := range []struct {
		s    algo.Schedule
		i    int
		want float64
	}{
		{algo.Schedule{Kind: algo.ScheduleConstant}, 0, 10},
		{algo.Schedule{Kind: algo.ScheduleConstant}, 1000, 10},
		{algo.Schedule{Kind: algo.ScheduleConstant, Warmup: 4}, 0, 2.5},
		{algo.Schedule{Kind: algo.ScheduleConstant, Warmup: 4}, 3, 10},
		{algo.Schedule{Kind: algo.ScheduleLinear, Total: 4}, 0, 10},
		{algo.Schedule{Kind: algo.ScheduleLinear, Total: 4}, 3, 4},
		{algo.Schedule{Kind: algo.ScheduleLinear, Total: 4}, 4, 2},
		{algo.Schedule{Kind: algo.ScheduleLinear, Total: 4}, 99, 2},
		{algo.Schedule{Kind: algo.ScheduleLinear, Total: 4, Warmup: -1}, 1, 8},
		{algo.Schedule{Kind: algo.ScheduleLinear, Total: 6, Warmup: 2}, 1, 10},
		{algo.Schedule{Kind: algo.ScheduleLinear, Total: 6, Warmup: 2}, 4, 6},
		{algo.Schedule{Kind: algo.ScheduleCosine, Total: 4}, 0, 10},
		{algo.Schedule{Kind: algo.ScheduleCosine, Total: 4}, 1, 2 + 8*(1+math.Sqrt2/2)/2},
		{algo.Schedule{Kind: algo.ScheduleCosine, Total: 4}, 2, 6},
		{algo.Schedule{Kind: algo.ScheduleCosine, Total: 4}, 9, 2},
	} {
		if got := c.s.At(c.i, 10, 2); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%+v at %d: %v, want %v", c.s, c.i, got, c.want)
		}
	}
}
