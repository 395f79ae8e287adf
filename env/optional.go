package env

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/tensor"
)

// Save returns a copy of the state of v, a Vec or a Simulator. If v, or a Vec that v wraps, is no Saver, it returns an
// error that is errors.ErrUnsupported.
func Save(v any) (tensor.Dict, error) {
	if s, ok := v.(Saver); ok {
		return s.Save()
	}
	return tensor.Dict{}, fmt.Errorf("save %T: %w", v, errors.ErrUnsupported)
}

// Load puts a state that Save returned back into v. If a tensor is missing or has another shape,
// Load returns an error, and v must be reset.
func Load(v any, state tensor.Dict) error {
	if s, ok := v.(Saver); ok {
		return s.Load(state)
	}
	return fmt.Errorf("load %T: %w", v, errors.ErrUnsupported)
}

// Act fills action, [N,1,A], with the present actions of the expert of v, a Vec or a Simulator. If v, or a Vec that v
// wraps, is no Expert, it returns an error that is errors.ErrUnsupported.
func Act(v interface{ Spec() Spec }, action tensor.Tensor) error {
	if e, ok := v.(Expert); ok {
		return e.Act(action)
	}
	return fmt.Errorf("%s has no expert (%w)", v.Spec().Name, errors.ErrUnsupported)
}

// Render draws environments of v. If v, or a Vec that v wraps, is no Renderer, it returns an error
// that is errors.ErrUnsupported.
func Render(v any, view View, mask []bool, rgb tensor.Tensor) error {
	if r, ok := v.(Renderer); ok {
		return r.Render(view, mask, rgb)
	}
	return fmt.Errorf("draw %T: %w", v, errors.ErrUnsupported)
}

// A memory is the part of a saved state that this package keeps: tensors with leading dimension N, under their names
// in the state.
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
