package env

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/tensor"
)

// Save returns a copy of the state of v, a Vec or a Simulator. The error is errors.ErrUnsupported if v, or a Vec that v
// wraps, is no Saver.
func Save(v any) (tensor.Dict, error) {
	if s, ok := v.(Saver); ok {
		return s.Save()
	}
	return tensor.Dict{}, fmt.Errorf("save %T: %w", v, errors.ErrUnsupported)
}

// Load restores a state that Save returned. If a tensor is missing or has another shape, Load
// returns an error, and v must be reset.
func Load(v any, state tensor.Dict) error {
	if s, ok := v.(Saver); ok {
		return s.Load(state)
	}
	return fmt.Errorf("load %T: %w", v, errors.ErrUnsupported)
}

// Act fills action, [N,1,A], with the actions of v's expert in the current states. v is a Vec or a Simulator. The error
// is errors.ErrUnsupported if v, or a Vec that v wraps, is no Expert.
func Act(v interface{ Spec() Spec }, action tensor.Tensor) error {
	if e, ok := v.(Expert); ok {
		return e.Act(action)
	}
	return fmt.Errorf("%s has no expert (%w)", v.Spec().Name, errors.ErrUnsupported)
}

// Render draws environments of v; see Renderer. The error is errors.ErrUnsupported if v, or a Vec that v wraps, is no
// Renderer.
func Render(v any, view View, mask []bool, rgb tensor.Tensor) error {
	if r, ok := v.(Renderer); ok {
		return r.Render(view, mask, rgb)
	}
	return fmt.Errorf("draw %T: %w", v, errors.ErrUnsupported)
}

// A memory lists the named tensors that this package adds to a saved state. Their leading dimension is N.
type memory []namedTensor

type namedTensor struct {
	name string
	tensor.Tensor
}

// save adds copies of the tensors to state.
func (m memory) save(state *tensor.Dict) {
	for _, own := range m {
		state.Set(own.name, own.Clone())
	}
}

// load overwrites the tensors with those of state, which must have the same types and shapes.
func (m memory) load(state tensor.Dict) error {
	for _, own := range m {
		t, ok := state.Get(own.name)
		if !ok {
			return fmt.Errorf("saved state of environments: no %s", own.name)
		}
		if !t.SameShape(own.Tensor) {
			return fmt.Errorf("saved state of environments: %s is %v, expected %v", own.name, t, own.Tensor)
		}
		own.CopyFrom(t)
	}
	return nil
}
