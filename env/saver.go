package env

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/tensor"
)

// Save returns a copy of the state of v. It returns an error that is errors.ErrUnsupported if v, or
// a Vec inside v, is no Saver.
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

// saved returns the tensor of a saved state, which must have the type and shape of like.
func saved(state tensor.Dict, name string, like tensor.Tensor) (tensor.Tensor, error) {
	t, ok := state.Get(name)
	if !ok {
		return t, fmt.Errorf("saved state of environments: no %s", name)
	}
	if !t.SameShape(like) {
		return t, fmt.Errorf("saved state of environments: %s is %v, expected %v", name, t, like)
	}
	return t, nil
}
