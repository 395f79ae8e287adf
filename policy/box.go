package policy

import (
	"fmt"

	"github.com/rlinf/rlinf/env"
)

// A unitBox maps the actions of a box with bounds to numbers in [-1, 1], and back. Chunks of actions
// repeat it.
type unitBox struct{ center, half []float32 }

func newUnitBox(s env.Space) (unitBox, error) {
	var b unitBox
	if s.Kind != env.Box {
		return b, fmt.Errorf("discrete choices: expected a box")
	}
	for k, low := range s.Low {
		center, half := (low+s.High[k])/2, (s.High[k]-low)/2
		if !(half > 0) || half-half != 0 {
			return b, fmt.Errorf("dimension %d is in [%v, %v]: expected bounds", k, low, s.High[k])
		}
		b.center, b.half = append(b.center, center), append(b.half, half)
	}
	return b, nil
}

// outOf sets action to the environment's action for unit. action and unit may be the same slice.
func (b unitBox) outOf(action, unit []float32) {
	for i, u := range unit {
		k := i % len(b.half)
		action[i] = b.center[k] + b.half[k]*u
	}
}

// into sets unit to action, scaled so that the bounds become ±1.
func (b unitBox) into(unit, action []float32) {
	for i, a := range action {
		k := i % len(b.half)
		unit[i] = (a - b.center[k]) / b.half[k]
	}
}
