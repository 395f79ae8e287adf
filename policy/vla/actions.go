package vla

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// actions normalises the dimensions of an action to [-1, 1], and divides them into bins. Every dimension has a range.
// At first the ranges are those of the action space. The method fit sets them to the 1 % and 99 % quantiles of
// demonstrated actions. The gripper has only two values: the bounds of its dimension in the action space. The ranges
// are buffers of the parameters.
type actions struct {
	space   env.Space
	dims    int // A
	gripper int // the gripper's dimension; -1 without a gripper
	bins    int
	params  *nn.Params[float32]
}

// Names of the buffers that hold the ranges, [A].
const (
	actionLow  = "action.low"
	actionHigh = "action.high"
)

func newActions(s env.Space, c *Config, params *nn.Params[float32]) (*actions, error) {
	if s.Kind != env.Box || s.DType != tensor.F32 || len(s.Low) == 0 {
		return nil, fmt.Errorf("kind %d of %v: expected a box of F32", s.Kind, s.DType)
	}
	a := &actions{space: s, dims: len(s.Low), gripper: -1, bins: c.ActionBins, params: params}
	for k, low := range s.Low {
		if d := s.High[k] - low; !(d > 0) || d-d != 0 {
			return nil, fmt.Errorf("dimension %d is in [%v, %v]: expected bounds", k, low, s.High[k])
		}
	}
	if c.Gripper {
		a.gripper = a.dims - 1
	}
	params.AddBuffer(actionLow, a.dims)
	params.AddBuffer(actionHigh, a.dims)
	return a, nil
}

func (a *actions) init() {
	low, high := a.ranges()
	for k := range low {
		low[k], high[k] = float64(a.space.Low[k]), float64(a.space.High[k])
	}
}

func (a *actions) ranges() (low, high []float64) {
	return a.params.Buffers.Must(actionLow).F64(), a.params.Buffers.Must(actionHigh).F64()
}

// options returns the number of bins of a dimension, which is 2 for the gripper.
func (a *actions) options(dim int) int {
	if dim == a.gripper {
		return 2
	}
	return a.bins
}

// unit normalises x, an action in the given dimension, and clips the result to [-1, 1].
func (a *actions) unit(x float32, dim int) float64 {
	low, high := a.ranges()
	return min(max(2*(float64(x)-low[dim])/(high[dim]-low[dim])-1, -1), 1)
}

// number is the inverse of unit: it returns the action for u. For the gripper it returns the nearer bound.
func (a *actions) number(u float64, dim int) float32 {
	low, high := a.ranges()
	if dim == a.gripper {
		if u < 0 {
			return float32(low[dim])
		}
		return float32(high[dim])
	}
	return float32(low[dim] + (u+1)/2*(high[dim]-low[dim]))
}

// encode returns the bin of dimension dim in which x lies.
func (a *actions) encode(x float32, dim int) int {
	n := a.options(dim)
	return min(int((a.unit(x, dim)+1)/2*float64(n)), n-1)
}

// decode returns the action in the middle of a bin. For the gripper, it returns one of the two bounds.
func (a *actions) decode(bin, dim int) float32 {
	return a.number(float64(2*bin+1)/float64(a.options(dim))-1, dim)
}

// minWidth is the smallest width of a range, as a share of the width in the action space. Without it, a dimension that
// is constant in all demonstrations would have a range of width 0.
const minWidth = 1e-3

// fit sets the ranges to the quantiles of demonstrated actions, [M,C,A].
func (a *actions) fit(demos tensor.Tensor) {
	low, high := a.ranges()
	x, column := demos.F32(), make([]float32, demos.Len()/a.dims)
	for k := range low {
		if k == a.gripper {
			continue
		}
		for i := range column {
			column[i] = x[i*a.dims+k]
		}
		slices.Sort(column)
		last := float64(len(column) - 1)
		low[k], high[k] = float64(column[int(0.01*last)]), float64(column[int(0.99*last+0.5)])
		if least := minWidth * float64(a.space.High[k]-a.space.Low[k]); high[k]-low[k] < least {
			low[k], high[k] = low[k]-least/2, high[k]+least/2
		}
	}
}
