package policy

import (
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// actionShape describes the actions that a network chooses.
type actionShape struct {
	dims    int   // D = C·A
	options []int // number of options of each dimension; nil for a box
	summed  int   // dimensions in one log-prob
}

// shapeOf returns the shape of a chunk of cfg.NumActionChunks actions in the space s.
func shapeOf(s env.Space, cfg Config) (actionShape, error) {
	a, size := s.Dim(), s.Dim()
	var options []int
	switch s.Kind {
	case env.Box:
		if s.DType != tensor.F32 {
			return actionShape{}, fmt.Errorf("box of %v: expected F32", s.DType)
		}
	case env.Discrete:
		if len(s.Nvec) != 1 {
			return actionShape{}, fmt.Errorf("discrete action with %d choices at a time: expected 1", len(s.Nvec))
		}
		a, size, options = 1, s.Nvec[0], s.Nvec
	case env.MultiDiscrete:
		a, size, options = len(s.Nvec), len(s.Nvec), s.Nvec
	default:
		return actionShape{}, fmt.Errorf("kind %d: expected a box, discrete or multi-discrete", s.Kind)
	}
	for _, k := range options {
		if k < 1 {
			return actionShape{}, fmt.Errorf("choices %v: expected at least one option each", options)
		}
	}
	if a < 1 {
		return actionShape{}, fmt.Errorf("%d dimensions: expected at least 1", a)
	}
	if cfg.ActionDim != 0 && cfg.ActionDim != size {
		return actionShape{}, env.KeyErrors{{Key: "action_dim",
			Reason: fmt.Sprintf("%d, but an action has %d", cfg.ActionDim, size)}}
	}
	summed, _ := cfg.Summed(a)
	shape := actionShape{dims: cfg.NumActionChunks * a, summed: summed}
	for range cfg.NumActionChunks {
		shape.options = append(shape.options, options...)
	}
	return shape, nil
}

// ClipAction copies src, [N,C,A], to dst, and brings each element of a box within the bounds of s. NaN stays NaN. dst
// may be src. Act.Feed calls ClipAction. Policies store and evaluate the action before clipping.
func ClipAction(s env.Space, dst, src tensor.Tensor) {
	if s.Kind != env.Box {
		dst.CopyFrom(src)
		return
	}
	to, from := dst.F32(), src.F32()
	if len(to) != len(from) || len(from)%len(s.Low) != 0 {
		panic(fmt.Sprintf("policy: clip %v into %v by %d bounds", src, dst, len(s.Low)))
	}
	for i := 0; i < len(from); i += len(s.Low) {
		for k, low := range s.Low {
			to[i+k] = min(max(from[i+k], low), s.High[k])
		}
	}
}

// A unitBox maps the actions of a bounded box to numbers in [-1, 1], and back. All actions of a chunk have the same
// bounds.
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

// fromUnit maps the numbers in unit from [-1, 1] to the bounds. It writes the results to action. The slices action and
// unit may be the same.
func (b unitBox) fromUnit(action, unit []float32) {
	for i, u := range unit {
		k := i % len(b.half)
		action[i] = b.center[k] + b.half[k]*u
	}
}

// toUnit maps actions from the bounds to [-1, 1], and writes the results to unit.
func (b unitBox) toUnit(unit, action []float32) {
	for i, a := range action {
		k := i % len(b.half)
		unit[i] = (a - b.center[k]) / b.half[k]
	}
}
