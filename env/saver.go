package env

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/tensor"
)

// Save returns a copy of the state of v if it is a Saver, and all that it is made of are; else an
// error that is errors.ErrUnsupported.
func Save(v any) (tensor.Dict, error) {
	if s, ok := v.(Saver); ok {
		return s.Save()
	}
	return tensor.Dict{}, fmt.Errorf("save %T: %w", v, errors.ErrUnsupported)
}

// Load puts back into v what Save returned. It gives an error, and v is then to be reset, where a
// tensor is missing or of another shape.
func Load(v any, state tensor.Dict) error {
	if s, ok := v.(Saver); ok {
		return s.Load(state)
	}
	return fmt.Errorf("load %T: %w", v, errors.ErrUnsupported)
}

// saved returns the tensor of a saved state that has the type and shape of like.
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
