package algo

import (
	"math"
	"strings"
)

// Values of OptimConfig.LRScheduler. Config.ClipRatioSchedule has only the first two.
const (
	ScheduleConstant = "constant"
	ScheduleLinear   = "linear"
	ScheduleCosine   = "cosine"
)

// A ScheduleName is a value of Schedule.Kind in YAML.
type ScheduleName string

// UnmarshalText reads a ScheduleName. It removes the prefix of RLinf's torch_constant and torch_cosine.
// OptimConfig.Check reports unknown names.
func (n *ScheduleName) UnmarshalText(text []byte) error {
	switch s := string(text); s {
	case "torch_constant", "torch_cosine":
		*n = ScheduleName(strings.TrimPrefix(s, "torch_"))
	default:
		*n = ScheduleName(s)
	}
	return nil
}

// A Schedule tells how a number moves from its value at the start of a run to its value at the end.
type Schedule struct {
	Kind   string // one of the constants
	Warmup int    // iterations at the start, in which the number rises linearly from 1/Warmup of its value
	Total  int    // iteration at which the number reaches its last value; ignored by constant
}

// At returns the value in iteration i ≥ 0 of a schedule from start to end. As in CleanRL, the value is start in the
// first iteration after the warm-up, and one step short of end in iteration Total-1.
func (s Schedule) At(i int, start, end float64) float64 {
	if i < s.Warmup {
		return start * float64(i+1) / float64(s.Warmup)
	}
	if s.Kind == ScheduleConstant {
		return start
	}
	left := 0.0
	if span := s.Total - max(s.Warmup, 0); span > 0 {
		left = 1 - min(float64(i-max(s.Warmup, 0))/float64(span), 1)
	}
	if s.Kind == ScheduleCosine {
		left = (1 - math.Cos(math.Pi*left)) / 2
	}
	return end + (start-end)*left
}
